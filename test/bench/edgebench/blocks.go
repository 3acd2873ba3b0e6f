package main

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// block is a run of instructions without a branch, as the plugin of the emulator
// counts it.
type block struct{ address, length, runs uint64 }

// blockSize is the size of a block in the plugin's file, which begins with their
// number.
const blockSize = 24

// blocksFile is where the plugin counts blocks.
func (c *counter) blocksFile(s *site) string { return filepath.Join(s.dir, "blocks") }

// readBlocks reads what the plugin has counted so far.
func readBlocks(file string) ([]block, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(raw) < 8 {
		return nil, fmt.Errorf("%s is not a table of blocks", file)
	}
	used, raw := binary.NativeEndian.Uint64(raw), raw[8:]
	if used > uint64(len(raw)/blockSize) {
		return nil, errors.New("the program has more blocks than the plugin can count")
	}
	blocks := make([]block, used)
	for i := range blocks {
		entry := raw[i*blockSize:]
		blocks[i] = block{binary.NativeEndian.Uint64(entry), binary.NativeEndian.Uint64(entry[8:]), binary.NativeEndian.Uint64(entry[16:])}
	}
	return blocks, nil
}

// functionCost is what a function executed, without the functions that it calls, and
// how often it was called.
type functionCost struct {
	name                string
	instructions, calls uint64
}

// costs attributes what ran between two readings to the functions of a symbol table,
// the most expensive first.
func costs(before, after []block, symbols []elf.Symbol) []functionCost {
	slices.SortFunc(symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	byName := map[string]*functionCost{}
	for i, b := range after {
		if i < len(before) {
			b.runs -= before[i].runs
		}
		at, exact := slices.BinarySearchFunc(symbols, b.address, func(s elf.Symbol, address uint64) int { return cmp.Compare(s.Value, address) })
		if !exact {
			at--
		}
		name := "unknown"
		if at >= 0 && b.address < symbols[at].Value+symbols[at].Size {
			name = symbols[at].Name
		}
		if byName[name] == nil {
			byName[name] = &functionCost{name: name}
		}
		byName[name].instructions += b.runs * b.length
		if exact {
			byName[name].calls += b.runs
		}
	}
	var all []functionCost
	for _, cost := range byName {
		if cost.instructions > 0 {
			all = append(all, *cost)
		}
	}
	slices.SortFunc(all, func(a, b functionCost) int {
		return cmp.Or(cmp.Compare(b.instructions, a.instructions), cmp.Compare(a.name, b.name))
	})
	return all
}

// profileBlocks starts a profile of instructions. finish writes it to a file, as a table
// of functions with their instructions and calls per request.
func profileBlocks(blocks, program, file string) (finish func(requests int64) error, err error) {
	before, err := readBlocks(blocks)
	if err != nil {
		return nil, err
	}
	return func(requests int64) error {
		after, err := readBlocks(blocks)
		if err != nil {
			return err
		}
		executable, err := elf.Open(program)
		if err != nil {
			return err
		}
		defer executable.Close()
		symbols, err := executable.Symbols()
		if err != nil {
			return fmt.Errorf("%s: %w: build it without -ldflags -s", program, err)
		}
		var text strings.Builder
		table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
		fmt.Fprintln(table, "instructions\tcalls\tfunction")
		for _, cost := range costs(before, after, symbols) {
			fmt.Fprintf(table, "%.1f\t%.2f\t%s\n", float64(cost.instructions)/float64(requests), float64(cost.calls)/float64(requests), cost.name)
		}
		table.Flush()
		return os.WriteFile(file, []byte(text.String()), 0o644)
	}, nil
}
