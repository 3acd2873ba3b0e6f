package runtime

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const (
	// commandReference is generated from the commands themselves.
	commandReference = root + "/docs/reference/cli.md"
	makefile         = root + "/Makefile"
)

var (
	referenceFlag = regexp.MustCompile("^\\| `(--[a-z-]+)` \\|")
	makeTarget    = regexp.MustCompile(`(?m)^([a-z-]+):.*##`)
)

// commandList has the flags of each command by its words, and the targets of the
// Makefile. Only commands that run something take arguments.
type commandList map[string]map[string]bool

// readCommands reads the reference of the commands and the Makefile.
func readCommands(t *testing.T) commandList {
	t.Helper()
	list, command := commandList{"slipway": {}}, "slipway"
	for line := range strings.Lines(string(must.Get(os.ReadFile(commandReference))(t))) {
		if title, is := strings.CutPrefix(strings.TrimSpace(line), "## "); is {
			command = title
			list[command] = map[string]bool{}
		}
		if match := referenceFlag.FindStringSubmatch(line); match != nil {
			list[command][match[1]] = true
		}
	}
	for _, match := range makeTarget.FindAllStringSubmatch(string(must.Get(os.ReadFile(makefile))(t)), -1) {
		list["make "+match[1]] = map[string]bool{}
	}
	if len(list) < 100 {
		t.Fatalf("%d commands were found", len(list))
	}
	return list
}

// problem is what is wrong with a command line: the command, a target, or a flag
// does not exist. A flag may belong to a parent of the command.
func (l commandList) problem(line string) string {
	words := strings.Fields(line)
	if words[0] == "make" {
		if l[line] == nil {
			return line + " is no target of the Makefile"
		}
		return ""
	}
	command := words[0]
	for _, word := range words[1:] {
		if l[command+" "+word] == nil {
			break
		}
		command += " " + word
	}
	// What follows a group of commands has to be one of them.
	rest := strings.TrimSpace(strings.TrimPrefix(line, command))
	if l[command] == nil || l.isGroup(command) && rest != "" && !strings.HasPrefix(rest, "-") {
		return line + " is no command of the program"
	}
	for _, word := range strings.Fields(rest) {
		flag, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(flag, "--") && !l.hasFlag(command, flag) {
			return fmt.Sprintf("%s has no flag %s", command, flag)
		}
	}
	return ""
}

// isGroup reports whether a command has others below it.
func (l commandList) isGroup(command string) bool {
	for other := range l {
		if strings.HasPrefix(other, command+" ") {
			return true
		}
	}
	return false
}

// hasFlag looks for a flag of a command or of its parents.
func (l commandList) hasFlag(command, flag string) bool {
	for {
		if l[command][flag] {
			return true
		}
		at := strings.LastIndexByte(command, ' ')
		if at < 0 {
			return false
		}
		command = command[:at]
	}
}
