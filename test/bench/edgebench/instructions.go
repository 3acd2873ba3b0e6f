package main

import (
	"context"
	_ "embed" // testdata/counter.c
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// emulator runs a program of this architecture instruction by instruction.
const emulator = "qemu-x86_64"

// counterSource is the plugin of the emulator that counts.
//
//go:embed testdata/counter.c
var counterSource []byte

// counter counts the instructions that proxies execute outside the kernel. On a
// shared machine CPU time varies by a tenth from one round to the next, and
// instructions by a hundredth or two, because work that is done once per second
// is shared by fewer requests. They are no measure of caches and system calls.
type counter struct {
	plugin string
	// blocks counts those of each function too.
	blocks bool
}

// newCounter compiles the plugin below dir.
func newCounter(ctx context.Context, dir string) (*counter, error) {
	source, plugin := filepath.Join(dir, "counter.c"), filepath.Join(dir, "counter.so")
	if err := os.WriteFile(source, counterSource, 0o600); err != nil {
		return nil, err
	}
	text, err := exec.CommandContext(ctx, "gcc", "-O1", "-shared", "-fPIC", "-o", plugin, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compiling the plugin of %s: %w: %s", emulator, err, text)
	}
	return &counter{plugin: plugin}, nil
}

// attach makes a command run in the emulator. The count of one thread is exact,
// so a Go program gets one.
func (c *counter) attach(command *exec.Cmd, s *site) error {
	path, err := exec.LookPath(emulator)
	if err != nil {
		return err
	}
	command.Args = append([]string{emulator, "-plugin", c.plugin, command.Path}, command.Args[1:]...)
	command.Path = path
	command.Env = append(command.Env, "INSTRUCTION_COUNT_FILE="+c.file(s), "GOMAXPROCS=1")
	if c.blocks {
		command.Env = append(command.Env, "INSTRUCTION_BLOCKS_FILE="+c.blocksFile(s))
	}
	return nil
}

// file is where the plugin counts.
func (c *counter) file(s *site) string { return filepath.Join(s.dir, "instructions") }

// read returns the count so far; a nil counter counts nothing.
func (c *counter) read(s *site) (uint64, error) {
	if c == nil {
		return 0, nil
	}
	raw, err := os.ReadFile(c.file(s))
	if err != nil {
		return 0, err
	}
	if len(raw) != 8 {
		return 0, fmt.Errorf("%s has %d bytes instead of 8", c.file(s), len(raw))
	}
	return binary.NativeEndian.Uint64(raw), nil
}
