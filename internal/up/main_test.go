package up

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// testDeadline bounds each wait of a test. It is generous: it only ends tests
// that have failed.
const testDeadline = 30 * time.Second

// fakeMode, in the environment, makes the test binary a child process of a
// test; when it is named slipway-devcluster, a test has put it in the place of
// the real one.
const fakeMode = "SLIPWAY_UP_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" && filepath.Base(os.Args[0]) == devclusterBinary {
		os.Exit(fakeChild(mode, nil))
	}
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(fakeChild(os.Args[2], os.Args[3:]))
	}
	// With the race detector each child would linger a second at its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m)
}

// fakeChild is a process that behaves as its mode asks. All but the stubborn
// and deaf ones end with their standard input, as a part must.
func fakeChild(mode string, args []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGINT)
	stdin := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stdin)
	}()
	switch mode {
	case "part":
		return obedient(args[0], args[1], signals, stdin)
	case "deaf":
		return obedient(args[0], args[1], signals, nil)
	case "silent":
		select {
		case <-signals:
		case <-stdin:
		}
		return 0
	case "refuse":
		fmt.Fprintln(os.Stderr, "the directory is in use by pid 4711")
		return 1
	case "stubborn":
		fmt.Println("ready")
		select {} // neither signals nor the end of the input count
	case "family":
		// Its own child is in the same process group and as stubborn.
		grandchild := exec.Command(os.Args[0], "child", "stubborn")
		grandchild.ExtraFiles = []*os.File{os.NewFile(3, "hold")}
		output, _ := grandchild.StdoutPipe()
		if err := grandchild.Start(); err != nil {
			return 1
		}
		bufio.NewReader(output).ReadString('\n')
		fmt.Println("ready")
		select {}
	case "runner":
		return runner(args[0], fakeProgram("part", "orphan", args[1]))
	case "runner of a deaf one":
		deaf := fakeProgram("deaf", "orphan", args[1])
		deaf.tied = true
		return runner(args[0], deaf)
	}
	return 2
}

// obedient notes in a journal when it ends, and dies on SIGUSR1.
func obedient(name, journal string, signals <-chan os.Signal, stdin <-chan struct{}) int {
	fmt.Println("ready")
	reason := "input ended"
	select {
	case s := <-signals:
		if s == syscall.SIGUSR1 {
			fmt.Fprintln(os.Stderr, "boom")
			return 3
		}
		reason = s.String()
	case <-stdin:
	}
	file, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	defer file.Close()
	fmt.Fprintf(file, "%s: %s\n", name, reason)
	return 0
}

// runner holds a state directory and a child, until it is killed.
func runner(dir string, p program) int {
	s, err := openState(context.Background(), dir, nil, func(string) {})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	p.hold = s.lock
	c, err := startChild(p)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-c.output.line
	fmt.Println("up")
	select {}
}

func fakeProgram(mode string, args ...string) program {
	return program{path: os.Args[0], args: append([]string{"child", mode}, args...)}
}

// requireText fails unless the error has each of the texts.
func requireText(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}
