// SPDX-License-Identifier: Apache-2.0
/* The functions of Ceph's libraries that are looked at: each does nothing but to be called. */
#include <stddef.h>
#include <stdint.h>

#define NAMED(name) __asm__(name) __attribute__((noinline, visibility("default")))
#define SEEN(...) __asm__ volatile("" : : __VA_ARGS__ : "memory")

void write_v1(void *protocol, void *message, void *buffer, int more)
	NAMED("_ZN10ProtocolV113write_messageEP7MessageRN4ceph6buffer7v15_2_04listEb");
void write_v2(void *protocol, void *message, int more)
	NAMED("_ZN10ProtocolV213write_messageEP7Messageb");
void dispatch(void *queue, void **message)
	NAMED("_ZN13DispatchQueue13fast_dispatchERKN5boost13intrusive_ptrI7MessageEE");

long image_write(void **image, uint64_t offset, size_t size, void *data, void *completion)
	NAMED("_ZN6librbd5Image9aio_writeEmmRN4ceph6buffer7v15_2_04listEPNS_3RBD13AioCompletionE");
long image_flush(void **image, void *completion)
	NAMED("_ZN6librbd5Image9aio_flushEPNS_3RBD13AioCompletionE");
long get_return_value(void *completion) NAMED("_ZN6librbd3RBD13AioCompletion16get_return_valueEv");

void write_v1(void *protocol, void *message, void *buffer, int more)
{
	SEEN("r"(protocol), "r"(message), "r"(buffer), "r"(more));
}

void write_v2(void *protocol, void *message, int more)
{
	SEEN("r"(protocol), "r"(message), "r"(more));
}

void dispatch(void *queue, void **message)
{
	SEEN("r"(queue), "r"(message));
}

int rbd_aio_write(void *image, uint64_t offset, size_t size, const char *data, void *completion)
{
	SEEN("r"(image), "r"(offset), "r"(size), "r"(data), "r"(completion));
	return 0;
}

int rbd_aio_writev(void *image, const void *parts, int count, uint64_t offset, void *completion)
{
	SEEN("r"(image), "r"(parts), "r"(count), "r"(offset), "r"(completion));
	return 0;
}

int rbd_aio_flush(void *image, void *completion)
{
	SEEN("r"(image), "r"(completion));
	return 0;
}

long rbd_aio_get_return_value(void *completion)
{
	SEEN("r"(completion));
	return 0;
}

int rbd_aio_create_completion(void *argument, void *function, void **completion)
{
	SEEN("r"(argument), "r"(function), "r"(completion));
	return 0;
}

int rbd_aio_wait_for_complete(void *completion)
{
	SEEN("r"(completion));
	return 0;
}

int rbd_discard(void *image, uint64_t offset, uint64_t size)
{
	SEEN("r"(image), "r"(offset), "r"(size));
	return 0;
}

/* The program's own. */
void called_back(void *completion, void *argument)
{
	SEEN("r"(completion), "r"(argument));
}

long rbd_write(void *image, uint64_t offset, size_t size, const char *data)
{
	SEEN("r"(image), "r"(offset), "r"(size), "r"(data));
	return 0;
}

int rbd_flush(void *image)
{
	SEEN("r"(image));
	return 0;
}

long image_write(void **image, uint64_t offset, size_t size, void *data, void *completion)
{
	SEEN("r"(image), "r"(offset), "r"(size), "r"(data), "r"(completion));
	return 0;
}

long image_flush(void **image, void *completion)
{
	SEEN("r"(image), "r"(completion));
	return 0;
}

long get_return_value(void *completion)
{
	SEEN("r"(completion));
	return 0;
}
