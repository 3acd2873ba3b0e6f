/* A plugin of QEMU's user mode: it counts the instructions that a program and
 * its children execute, in a file that others can read meanwhile. The
 * declarations are those of qemu-plugin.h, which Debian does not package. */
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

int qemu_plugin_version = 1;

static uint64_t *count;

/* A block is translated once, and adds its length each time that it runs. */
static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
	qemu_plugin_register_vcpu_tb_exec_inline(block, 0, count, qemu_plugin_tb_n_insns(block));
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	const char *name = getenv("INSTRUCTION_COUNT_FILE");
	int file = name ? open(name, O_RDWR | O_CREAT, 0600) : -1;
	if (file < 0 || ftruncate(file, sizeof *count) != 0)
		return 1;
	count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (count == MAP_FAILED)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
