package resilience

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// attackVariable is the order to an attacker's process, in its environment.
const attackVariable = "RESILIENCE_ATTACK"

// attackMain is what an attacker's process does instead of tests: it floods
// until its input ends, and prints how long each connection lasted that the edge
// ended.
func attackMain() {
	o, ok := parseOrder(os.Getenv(attackVariable))
	if !ok {
		fmt.Fprintf(os.Stderr, "%s is %q\n", attackVariable, os.Getenv(attackVariable))
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var say sync.Mutex
	var attacking sync.WaitGroup
	var count atomic.Uint32
	f := floods()[ordinal(o.flood)]
	for i := range attackers {
		attacking.Go(func() {
			f.attack(ctx, o.address, o.from.placeOf(o.flood, i, &count), func(lasted time.Duration) {
				say.Lock()
				defer say.Unlock()
				fmt.Println(lasted)
			})
		})
	}
	attacking.Wait()
}

// begins starts a flood in a process of its own, with what the others leave
// of the processors: an attacker has its own machine, and must not take away
// the honest client's. What it returns ends the flood.
func (f flood) begins(t *testing.T, address string, from source, l *lives) (stop func()) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	command := exec.Command("chrt", "--idle", "0", self)
	command.Env = append(os.Environ(), attackVariable+"="+order{flood: f.name, from: from, address: address}.String())
	command.Stderr = os.Stderr
	input := must.Get(command.StdinPipe())(t)
	output, writer := io.Pipe()
	command.Stdout = writer
	attacker := programs.Run(t, "the attacker", command)
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
		if err := attacker.End(input.Close); err != nil || !attacker.State().Success() {
			t.Errorf("the attacker ended with %v: %v", attacker.State(), err)
		}
		_ = writer.Close() // which ends what reads the lines
		<-listening
	}
}
