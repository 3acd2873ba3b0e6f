package report_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/must"
)

// history is a random life of a cluster, a reporter and a platform.
type history struct {
	t        *testing.T
	dice     *rand.Rand
	cluster  *cluster
	platform *platform
	life     *life
	backup   database
	log      []string
}

func (h *history) note(format string, values ...any) {
	h.log = append(h.log, fmt.Sprintf(format, values...))
}

// TestPlatformHasWhatTheClusterHas: after any sequence of changes, cuts and
// restarts, the platform ends with the Applications that there are.
func TestPlatformHasWhatTheClusterHas(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := &history{
				t: t, dice: rand.New(rand.NewPCG(seed, 7)), cluster: newCluster(), platform: newPlatform(t), backup: newDatabase(),
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(strings.Join(h.log, "\n"))
				}
			})
			h.begin(t.TempDir())
			for range 60 {
				h.step()
			}
			h.platform.change(func(p *platform) { p.cutBefore, p.cutAfter, p.away = 0, 0, false })
			h.note("healed")
			h.platform.await(t, h.cluster)
		})
	}
}

func (h *history) begin(folder string) {
	h.life = start(h.t, h.platform, h.cluster, folder, func(o *report.Options) {
		if h.dice.IntN(4) == 0 {
			o.MaxBytes = 200 // some Applications fill it
		}
	})
}

func (h *history) step() {
	name := fmt.Sprint("app-", h.dice.IntN(8))
	switch roll := h.dice.IntN(24); {
	case roll >= 20:
		// Time for both to become equal, as far as the cuts let them.
		h.platform.change(func(p *platform) { p.away = false })
		h.note("equal")
		h.platform.await(h.t, h.cluster)
	case roll < 9:
		h.note("change %s", name)
		h.cluster.set(name, []string{"Healthy", "Degraded", "Progressing"}[h.dice.IntN(3)])
	case roll < 12:
		h.note("delete %s", name)
		h.cluster.remove(name)
		if h.dice.IntN(2) == 0 {
			h.cluster.set(name, "Missing")
		}
	case roll < 15:
		h.platform.change(func(p *platform) {
			p.cutBefore, p.cutAfter, p.away = 50*h.dice.IntN(2), 50*h.dice.IntN(2), h.dice.IntN(3) == 0
			h.note("cuts before %d after %d away %v", p.cutBefore, p.cutAfter, p.away)
		})
	case roll < 18:
		h.restart()
	default:
		h.platform.change(h.loseData)
	}
}

// loseData takes the platform's database away, or replaces it by an older one.
func (h *history) loseData(p *platform) {
	switch h.dice.IntN(3) {
	case 0:
		h.note("backup at %d", p.data.stored)
		h.backup = p.data.copy()
	case 1:
		h.note("restored to %d", h.backup.stored)
		p.data = h.backup.copy()
	case 2:
		h.note("database lost")
		p.data = newDatabase()
	}
}

// restart ends the reporter, or kills it, and may damage what it left.
func (h *history) restart() {
	folder := h.life.folder
	how := max(h.dice.IntN(8)-3, 0) // often in good order
	h.note("restart %d", how)
	if how > 0 {
		folder = h.life.image(h.t)
	}
	h.life.end(h.t, h.cluster)
	if h.dice.IntN(2) == 0 {
		h.cluster.remove(fmt.Sprint("app-", h.dice.IntN(8))) // while nobody looks
		h.cluster.set(fmt.Sprint("app-", h.dice.IntN(8)), "Unknown")
	}
	names := must.Get(filepath.Glob(filepath.Join(folder, "*")))(h.t)
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil || len(content) == 0 {
			continue
		}
		at := h.dice.IntN(len(content))
		switch how {
		case 2:
			content = content[:at] // a write that was not finished
		case 3:
			content[at] ^= 1 << h.dice.IntN(8)
		case 4:
			content = nil
		}
		must.Do(h.t, os.WriteFile(name, content, 0o600))
	}
	h.begin(folder)
}
