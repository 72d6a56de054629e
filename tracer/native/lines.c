/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table as lines of text: numbers in decimal digits, and names, of which all that may be
 * one stand behind one another. */
#include "native.h"

enum {
	MOST_DIGITS = 20, /* -9223372036854775808 */
	PAIRS = 100
};

struct cells {
	const int64_t *value; /* Of each row; with ``text``, which name. */
	const uint8_t *text;  /* NULL: they are numbers. */
	int64_t size;         /* Of the text. */
	const int64_t *end;   /* Of each name in the text; it begins where the last one ends. */
	int64_t names;
};

static const char PAIR[2 * PAIRS + 1] = "0001020304050607080910111213141516171819"
					"2021222324252627282930313233343536373839"
					"4041424344454647484950515253545556575859"
					"6061626364656667686970717273747576777879"
					"8081828384858687888990919293949596979899";

/* Returns how many characters. */
static int64_t put_number(uint8_t *line, int64_t value)
{
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	uint8_t digits[MOST_DIGITS + 1];
	int at = sizeof(digits);

	while (rest >= PAIRS) {
		at -= 2;
		__builtin_memcpy(digits + at, PAIR + 2 * (rest % PAIRS), 2);
		rest /= PAIRS;
	}
	if (rest >= 10) {
		at -= 2;
		__builtin_memcpy(digits + at, PAIR + 2 * rest, 2);
	} else {
		digits[--at] = (uint8_t)('0' + rest);
	}
	if (value < 0)
		digits[--at] = '-';
	for (int i = at; i < (int)sizeof(digits); i++)
		*line++ = digits[i];
	return (int64_t)sizeof(digits) - at;
}

/* Returns how many characters, or WRONG. */
static int64_t put_name(uint8_t *line, int64_t room, const struct cells *cells, int64_t name)
{
	int64_t begin, length;

	if (name < 0 || name >= cells->names)
		return WRONG;
	begin = name ? cells->end[name - 1] : 0;
	length = cells->end[name] - begin;
	if (begin < 0 || length < 0 || cells->end[name] > cells->size || length > room)
		return WRONG;
	for (int64_t i = 0; i < length; i++)
		line[i] = cells->text[begin + i];
	return length;
}

/* ``text``: has room for so many characters. Returns how many there are. */
PUBLIC int64_t lines(const struct cells *columns, int64_t count, int64_t rows, uint8_t *text,
		     int64_t room)
{
	int64_t at = 0;

	for (int64_t row = 0; row < rows; row++)
		for (int64_t i = 0; i < count; i++) {
			const struct cells *cells = &columns[i];
			int64_t length;

			if (room - at <= MOST_DIGITS)
				return WRONG;
			if (cells->text)
				length = put_name(text + at, room - at - 1, cells,
						  cells->value[row]);
			else
				length = put_number(text + at, cells->value[row]);
			if (length < 0)
				return WRONG;
			at += length;
			text[at++] = i + 1 < count ? ',' : '\n';
		}
	return at;
}
