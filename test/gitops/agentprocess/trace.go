package agentprocess

import (
	"fmt"
	"strconv"
	"strings"
)

// Execution is one program that was executed, or was tried.
type Execution struct {
	Process   string
	Program   string
	Arguments string // as strace writes them
}

// Executions reads what strace wrote. A line that it does not understand is an
// error: it could be the one that matters.
func Executions(trace string) ([]Execution, error) {
	var all []Execution
	for line := range strings.Lines(trace) {
		process, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch {
		case rest == "" || strings.HasPrefix(rest, "+++ ") || strings.HasPrefix(rest, "<... execve"):
			continue // an end, or the second half of what was told before
		case !strings.HasPrefix(rest, "execve(") && !strings.HasPrefix(rest, "execveat("):
			return nil, fmt.Errorf("strace says %q", line)
		}
		_, given, _ := strings.Cut(rest, "(")
		if strings.HasPrefix(rest, "execveat(") {
			// The first argument is a folder; the program is relative to it.
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
