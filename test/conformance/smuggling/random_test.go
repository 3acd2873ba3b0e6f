package smuggling

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/programs"
)

// combinations makes cases of two mutations: the head of one with a line of
// another, or with bytes changed.
func combinations(t *testing.T) []sample {
	t.Helper()
	count := programs.Setting(t, "SMUGGLING_RANDOM", 300)
	seed := programs.Setting(t, "SMUGGLING_SEED", 1)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	all := corpus()
	var lines []string
	for _, c := range all {
		head, _, _ := strings.Cut(c.raw, "\r\n\r\n")
		for i, line := range strings.Split(head, "\r\n") {
			if i > 2 && len(line) < 200 {
				lines = append(lines, line)
			}
		}
	}
	var made []sample
	for i := range count {
		first := all[random.IntN(len(all))]
		if len(first.raw) > 4000 {
			continue
		}
		raw := first.raw
		switch random.IntN(3) {
		case 0: // a line of another case
			head, body, _ := strings.Cut(raw, "\r\n\r\n")
			raw = head + "\r\n" + lines[random.IntN(len(lines))] + "\r\n\r\n" + body
		case 1: // a character in the head that does not belong there
			at := random.IntN(max(1, strings.Index(raw, "\r\n\r\n")))
			raw = raw[:at] + odd()[random.IntN(len(odd()))] + raw[at:]
		case 2: // a line that is there twice
			head, body, _ := strings.Cut(raw, "\r\n\r\n")
			all := strings.Split(head, "\r\n")
			raw = head + "\r\n" + all[random.IntN(len(all))] + "\r\n\r\n" + body
		}
		if strings.Count(raw, stamp) < strings.Count(first.raw, stamp) {
			continue // the nonce is spoilt, and nobody would know whose it is
		}
		made = append(made, sample{name: fmt.Sprintf("random/%d.%d of %s", seed, i, first.name), raw: raw, want: either, open: true, loose: true})
	}
	return made
}
