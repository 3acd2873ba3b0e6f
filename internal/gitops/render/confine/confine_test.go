//go:build linux

package confine_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/gitops/render/confine"
)

// The test program is also the process that is confined.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "confined" {
		probe()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// probe tries what a hostile template would like to do, on many threads, and
// prints what worked.
func probe() {
	program, _ := os.Executable()
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	state := confine.Apply(confine.Limits{MemoryBytes: 128 << 20, CPUSeconds: 100})
	fmt.Printf("missing: %q\n", state.Missing)
	attempts := map[string]func() error{
		"read":    func() error { _, err := os.ReadFile("/etc/passwd"); return err },
		"write":   func() error { return os.WriteFile("confined-probe", nil, 0o644) },
		"folder":  func() error { return os.Mkdir("confined-probe", 0o755) },
		"exec":    func() error { return exec.Command(program).Run() },
		"connect": func() error { _, err := net.Dial("tcp", listener.Addr().String()); return err },
		"listen":  func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"unix":    func() error { _, err := net.Listen("unix", "@confined-probe"); return err },
		"fetch":   func() error { _, err := http.Get("http://" + listener.Addr().String()); return err },
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			runtime.LockOSThread()
			for name, attempt := range attempts {
				if attempt() == nil {
					fmt.Printf("worked: %s\n", name)
				}
			}
		})
	}
	group.Wait()
	fmt.Println("tired:", state.Exhausted())
	fmt.Println("done")
}

// A confined process opens no file, runs no program and has no network, on any
// of its threads.
func TestConfined(t *testing.T) {
	output, err := exec.Command("/proc/self/exe", "confined").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	text := string(output)
	if strings.Contains(text, "worked:") || !strings.Contains(text, "tired: false\ndone\n") {
		t.Errorf("%s", text)
	}
	for _, needed := range []string{"seccomp (", "resource limits (", "no new privileges ("} {
		if strings.Contains(text, needed) {
			t.Errorf("%s", text)
		}
	}
}
