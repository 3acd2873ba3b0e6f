package resilience

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// attackVariable names the flood and the address in the environment of an
// attacker's process.
const attackVariable = "RESILIENCE_ATTACK"

// attackMain is what an attacker's process does instead of tests: it floods
// until its input ends, and says how long each connection lasted that the edge
// ended.
func attackMain() {
	name, address, _ := strings.Cut(os.Getenv(attackVariable), "@")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var say sync.Mutex
	var attacking sync.WaitGroup
	for _, f := range floods() {
		if f.name != name {
			continue
		}
		for range attackers {
			attacking.Go(func() {
				f.attack(ctx, address, func(lasted time.Duration) {
					say.Lock()
					defer say.Unlock()
					fmt.Println(lasted)
				})
			})
		}
	}
	attacking.Wait()
}

// begins starts a flood in a process of its own, with what the others leave
// of the processors: an attacker has its own machine, and must not take away
// the honest client's. What it returns ends the flood.
func (f flood) begins(t *testing.T, address string, l *lives) (stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("chrt", "--idle", "0", self)
	command.Env = append(os.Environ(), attackVariable+"="+f.name+"@"+address)
	command.Stderr = os.Stderr
	edgeprocess.Tie(command)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if lasted, err := time.ParseDuration(lines.Text()); err == nil {
				l.ended(lasted)
			}
		}
	}()
	return func() {
		_ = input.Close()
		<-listening
		if err := command.Wait(); err != nil {
			t.Errorf("the attacker: %v", err)
		}
	}
}
