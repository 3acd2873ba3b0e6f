package up

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/programs"
)

func TestFrame(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lines := []progressLine{
		{name: "devcluster", phase: phaseReady, note: "ready", took: 1440 * time.Millisecond},
		{name: "demo", phase: phaseStarting, note: "1 of 2 replicas ready", began: now.Add(-2500 * time.Millisecond)},
		{name: "edge", phase: phaseFailed, note: "waiting for routes", took: 61 * time.Second},
		{name: "agent"},
	}
	for _, test := range []struct {
		name         string
		turns, width int
		want         string
	}{
		{"wide", 1, 80, `
ok  devcluster  ready  1.4s
 /  demo        1 of 2 replicas ready  2s
!!  edge        waiting for routes  1m1s
    agent
`},
		{"narrow", 4, 30, `
ok  devcluster  ready  1.4s
 |  demo        1 of 2 rep...
!!  edge        waiting fo...
    agent
`},
		{"no width known", 0, 0, `
ok  devcluster  ...
 |  demo        ...
!!  edge        ...
    agent
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := frame(lines, now, test.turns, test.width)
			// What a terminal shows: each line begins at the left and clears
			// what was to its right.
			for _, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
				if !strings.HasPrefix(line, "\r") || !strings.HasSuffix(line, "\x1b[K") {
					t.Errorf("line %q does not replace what was there", line)
				}
			}
			shown := "\n" + strings.NewReplacer("\r", "", "\x1b[K", "").Replace(got)
			if shown != test.want {
				t.Errorf("got:%s\nwant:%s", shown, test.want)
			}
		})
	}
}

func TestPlainProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := &programs.Output{}
		p := newProgress(shown, nil, []string{"devcluster", "demo"})
		p.starting("devcluster", "waiting for the API server")
		p.starting("devcluster", "waiting for the API server")
		<-time.After(1400 * time.Millisecond) // of the bubble's clock
		p.ready("devcluster", "ready")
		p.starting("demo", "0 of 2 replicas ready")
		<-time.After(3 * time.Second)
		p.starting("demo", "1 of 2 replicas ready")
		p.failed("demo")
		p.finish()
		const want = `devcluster: waiting for the API server
devcluster: ready after 1.4s
demo: 0 of 2 replicas ready
demo: 1 of 2 replicas ready
demo: failed after 3s
`
		if got := shown.String(); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestTerminalProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := &programs.Output{}
		p := newProgress(shown, func() int { return 80 }, []string{"devcluster", "demo"})
		synctest.Wait()
		p.starting("devcluster", "waiting")
		<-time.After(redrawInterval) // of the bubble's clock
		synctest.Wait()
		p.ready("devcluster", "ready")
		p.finish()
		p.finish()
		const want = "" +
			"\r    devcluster\x1b[K\n\r    demo\x1b[K\n" +
			"\x1b[2A\r /  devcluster  waiting  0s\x1b[K\n\r    demo\x1b[K\n" +
			"\x1b[2A\rok  devcluster  ready  100ms\x1b[K\n\r    demo\x1b[K\n"
		if got := shown.String(); got != want {
			t.Errorf("got:\n%q\nwant:\n%q", got, want)
		}
	})
}

// A finished display must not come back and overwrite the table.
func TestFinishedProgressIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := &programs.Output{}
		p := newProgress(shown, func() int { return 80 }, []string{"demo"})
		p.finish()
		before := shown.String()
		<-time.After(time.Minute) // of the bubble's clock
		if after := shown.String(); after != before {
			t.Errorf("drawn after the end: %q", strings.TrimPrefix(after, before))
		}
	})
}
