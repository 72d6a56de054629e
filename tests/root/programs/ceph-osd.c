// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon of the name and with the functions of Ceph's OSD (ceph-osd -i NUMBER FILE; with --fork
 * first a child of it goes on): for a line N
 * on its input it serves N operations in a thread born then, each a synchronous write to its file,
 * with copies by two others. It says when it began and had ended each: "NUMBER BEGIN END", then
 * "done". Each function does nothing but to be called with what the real one is.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENT 4130
#define KIND_OSD 4
#define KIND_CLIENT 8
#define OP 42
#define OPREPLY 43
#define REPOP 112
#define REPOPREPLY 113
#define PING 70 /* which nobody asks for */

#define NAMED(name) __asm__(name) __attribute__((noinline))
#define BLUESTORE(function) NAMED("_ZN9BlueStore" function)

struct __attribute__((packed)) message {
	uint64_t table, count, context;
	uint64_t sequence, number;
	uint16_t type, priority, version;
	uint32_t front, middle, data;
	uint16_t data_offset;
	uint8_t source_kind;
	uint64_t source;
};

struct addressed {
	int peer;
	struct message *message;
};

struct messages {
	struct addressed *begin, *end, *room;
};

void request(void *op, struct message *message, void *tracker)
	NAMED("_ZN9OpRequestC1EP7MessageP9OpTracker");
void send_one(void *service, int peer, struct message *message, unsigned int epoch)
	NAMED("_ZN10OSDService24send_message_osd_clusterEiP7Messagej");
void send_all(void *service, struct messages *messages, unsigned int epoch)
	NAMED("_ZN10OSDService24send_message_osd_clusterERSt6vectorISt4pairIiP7MessageESaIS4_EEj");
void dequeue(void *osd, void **group, void **op, void *handle)
	NAMED("_ZN3OSD10dequeue_opEN5boost13intrusive_ptrI2PGEENS1_I9OpRequestEERN10ThreadPool8T"
	      "PHandleE");
void reply(void *group, void *op, unsigned long in, unsigned long out)
	NAMED("_ZN12PrimaryLogPG12log_op_statsERK9OpRequestmm");
void write_v1(void *protocol, struct message *message, void *buffer, int more)
	NAMED("_ZN10ProtocolV113write_messageEP7MessageRN4ceph6buffer7v15_2_04listEb");
void write_v2(void *protocol, struct message *message, int more)
	NAMED("_ZN10ProtocolV213write_messageEP7Messageb");
void add(void *store, void *transaction, void *what)
	BLUESTORE("20_txc_add_transactionEPNS_12TransContextEPN4ceph2os11TransactionE");
void submit(void *store, void *transaction) BLUESTORE("15_txc_aio_submitEPNS_12TransContextE");
void finish(void *store, void *transaction) BLUESTORE("14_txc_finish_ioEPNS_12TransContextE");
void apply(void *store, void *transaction, int now)
	BLUESTORE("13_txc_apply_kvEPNS_12TransContextEb");
void committed(void *store, void *transaction) BLUESTORE("17_txc_committed_kvEPNS_12TransContextE");
int synchronise(void *store, void *transaction)
	NAMED("_ZN12RocksDBStore23submit_transaction_syncESt10shared_ptrIN10KeyValueDB15Transacti"
	      "onImplEE");

#define SEEN(...) __asm__ volatile("" : : __VA_ARGS__ : "memory")

static int file;
static uint64_t next_number = 1000;
static char objects[4][64];

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static struct message message_of(uint16_t type, uint64_t number, uint8_t kind, uint64_t source)
{
	return (struct message){
		.type = type, .number = number, .source_kind = kind, .source = source
	};
}

void request(void *op, struct message *message, void *tracker)
{
	SEEN("r"(op), "r"(message), "r"(tracker));
}

void send_one(void *service, int peer, struct message *message, unsigned int epoch)
{
	SEEN("r"(service), "r"(peer), "r"(message), "r"(epoch));
}

void send_all(void *service, struct messages *messages, unsigned int epoch)
{
	SEEN("r"(service), "r"(messages), "r"(epoch));
}

void reply(void *group, void *op, unsigned long in, unsigned long out)
{
	SEEN("r"(group), "r"(op), "r"(in), "r"(out));
}

void write_v1(void *protocol, struct message *message, void *buffer, int more)
{
	SEEN("r"(protocol), "r"(message), "r"(buffer), "r"(more));
}

void write_v2(void *protocol, struct message *message, int more)
{
	SEEN("r"(protocol), "r"(message), "r"(more));
}

void add(void *store, void *transaction, void *what)
{
	SEEN("r"(store), "r"(transaction), "r"(what));
}

void submit(void *store, void *transaction)
{
	SEEN("r"(store), "r"(transaction));
}

void finish(void *store, void *transaction)
{
	SEEN("r"(store), "r"(transaction));
}

void apply(void *store, void *transaction, int now)
{
	SEEN("r"(store), "r"(transaction), "r"(now));
}

void committed(void *store, void *transaction)
{
	SEEN("r"(store), "r"(transaction));
}

int synchronise(void *store, void *transaction)
{
	char data[4096] = "";

	SEEN("r"(store), "r"(transaction));
	if (pwrite(file, data, sizeof(data), 0) != sizeof(data) || fdatasync(file))
		exit(1);
	return 0;
}

/* Sends for copies, all at once, and one message that is none of an operation. */
void dequeue(void *osd, void **group, void **op, void *handle)
{
	struct message copy = message_of(REPOP, next_number + 1, 0, 0);
	struct message ping = message_of(PING, 1, 0, 0);
	struct addressed each[] = { { 1, &copy }, { 2, &copy }, { 3, &ping } };
	struct messages messages = { each, each + 3, each + 3 };

	SEEN("r"(osd), "r"(group), "r"(op), "r"(handle));
	send_all(NULL, &messages, 1);
	add(NULL, objects[1], NULL);
	submit(NULL, objects[1]);
}

static void *serve(void *count)
{
	for (int i = 0; i < *(int *)count; i++) {
		struct message asked = message_of(OP, next_number, KIND_CLIENT, CLIENT);
		struct message answer = message_of(REPOPREPLY, next_number + 1, KIND_OSD, 2);
		struct message answered = message_of(OPREPLY, next_number, 0, 0);
		void *op = objects[0], *group = objects[3];
		uint64_t begin = now_ns();

		request(op, &asked, NULL);
		dequeue(NULL, &group, &op, NULL);
		finish(NULL, objects[1]);
		apply(NULL, objects[1], 0);
		synchronise(NULL, NULL);
		committed(NULL, objects[1]);
		request(objects[2], &answer, NULL);
		reply(NULL, op, 4096, 0);
		write_v1(NULL, &answered, NULL, 0);
		send_one(NULL, 5, &answer, 1);
		write_v2(NULL, &answer, 0);
		printf("%llu %llu %llu\n", (unsigned long long)next_number,
		       (unsigned long long)begin, (unsigned long long)now_ns());
		next_number += 2;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int count;

	if (argc > 2 && !strcmp(argv[1], "--fork") && fork() > 0)
		return wait(NULL) < 0;
	file = argc > 1 ? open(argv[argc - 1], O_RDWR | O_CREAT, 0600) : -1;
	if (file < 0)
		return 1;
	puts("up");
	fflush(stdout);
	while (scanf("%d", &count) == 1) {
		pthread_create(&thread, NULL, serve, &count);
		pthread_join(thread, NULL);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
