/* A plugin of QEMU's user mode: it counts the instructions that a program and
 * its children execute, in a file that others can read meanwhile. With a second
 * file it also counts how often each block of instructions runs. The declarations
 * are those of qemu-plugin.h, which Debian does not package. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct qemu_plugin_tb;
struct qemu_info_t;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int op, void *counter, uint64_t add);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

int qemu_plugin_version = 1;

static uint64_t *count;

/* A block: its first address, its length in instructions, and how often it ran. */
struct block {
	uint64_t address, length, runs;
};

/* A block may be translated again; it then has another entry. */
#define MAX_BLOCKS (1u << 19)

static struct table {
	uint64_t used;
	struct block blocks[MAX_BLOCKS];
} *table;

/* A block is translated once, and adds its length each time that it runs. */
static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
	qemu_plugin_register_vcpu_tb_exec_inline(block, 0, count, qemu_plugin_tb_n_insns(block));
	if (table == NULL)
		return;
	uint64_t i = __atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED);
	if (i >= MAX_BLOCKS)
		return;
	table->blocks[i].address = qemu_plugin_tb_vaddr(block);
	table->blocks[i].length = qemu_plugin_tb_n_insns(block);
	qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &table->blocks[i].runs, 1);
}

/* The file that a variable names, as memory; NULL without one. */
static void *map_file(const char *variable, size_t size)
{
	const char *name = getenv(variable);
	int file = name ? open(name, O_RDWR | O_CREAT, 0600) : -1;
	if (file < 0 || ftruncate(file, size) != 0)
		return NULL;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	count = map_file("INSTRUCTION_COUNT_FILE", sizeof *count);
	if (count == NULL)
		return 1;
	table = map_file("INSTRUCTION_BLOCKS_FILE", sizeof *table);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
