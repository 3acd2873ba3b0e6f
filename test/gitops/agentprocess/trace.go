package agentprocess

import (
	"fmt"
	"strconv"
	"strings"
)

// Execution is one attempt to execute a program, successful or not.
type Execution struct {
	Process   string
	Program   string
	Arguments string // as strace writes them
}

// Executions parses a trace file of strace. A line of unknown form is an error:
// it could be the attempt that a security test is looking for.
func Executions(trace string) ([]Execution, error) {
	var all []Execution
	for line := range strings.Lines(trace) {
		process, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch {
		case rest == "" || strings.HasPrefix(rest, "+++ ") || strings.HasPrefix(rest, "<... execve"):
			continue // an exit, or the second half of a call that was interrupted
		case strings.HasPrefix(rest, "???") || strings.HasPrefix(rest, "<... ???"):
			continue // a process that ended, or was detached with the agent, before strace had the number of its call
		case !strings.HasPrefix(rest, "execve(") && !strings.HasPrefix(rest, "execveat("):
			return nil, fmt.Errorf("strace reports %q", line)
		}
		_, given, _ := strings.Cut(rest, "(")
		if strings.HasPrefix(rest, "execveat(") {
			// The first argument of execveat is a directory; the program is
			// relative to it.
			_, given, _ = strings.Cut(given, ", ")
		}
		quoted, arguments, _ := strings.Cut(given, ", ")
		program, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("strace names no program in %q", line)
		}
		all = append(all, Execution{Process: process, Program: program, Arguments: arguments})
	}
	return all, nil
}
