package up

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The functions of this file read /proc. Where there is none, or where it hides
// the processes of others, they return less and never fail.

// maxHolders bounds the list in a message.
const maxHolders = 4

// holdersOf returns the processes that have the target open: a path, or a
// socket as "socket:[inode]".
func holdersOf(target string) []int {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var holders []int
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil || len(holders) == maxHolders {
			continue
		}
		if open, _ := hasOpen(pid, target); open {
			holders = append(holders, pid)
		}
	}
	return holders
}

// hasOpen reports whether a process has the target open, and whether /proc lets
// us see it.
func hasOpen(pid int, target string) (open, known bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, false
	}
	for _, file := range files {
		if link, err := os.Readlink(filepath.Join(dir, file.Name())); err == nil && link == target {
			return true, true
		}
	}
	return false, true
}

// describeHolders names the processes that have the target open.
func describeHolders(target string) string {
	holders := holdersOf(target)
	if len(holders) == 0 {
		return "another process"
	}
	named := make([]string, 0, len(holders))
	for _, pid := range holders {
		named = append(named, describeProcess(pid))
	}
	return strings.Join(named, ", ")
}

// describeProcess names a process by its command and ID.
func describeProcess(pid int) string {
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return fmt.Sprintf("pid %d", pid)
	}
	return fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(name)), pid)
}

// listenerOf returns the socket that listens on a TCP port as
// "socket:[inode]", or "" when /proc does not show it.
func listenerOf(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		socket := findListener(file, port)
		file.Close()
		if socket != "" {
			return socket
		}
	}
	return ""
}

// findListener reads the kernel's table of TCP sockets: local address is the
// second field (hexadecimal, address:port), state the fourth, inode the tenth.
func findListener(table io.Reader, port int) string {
	const listening = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	// The suffix matches every local address of the port.
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[3] == listening && strings.HasSuffix(fields[1], suffix) {
			return "socket:[" + fields[9] + "]"
		}
	}
	return ""
}
