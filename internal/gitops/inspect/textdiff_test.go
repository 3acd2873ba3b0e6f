package inspect

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// patched applies a difference to a text: what patch does, in its simplest form.
func patched(t *testing.T, before, diff string) string {
	t.Helper()
	old := splitLines(before)
	var out []string
	next := 0
	for _, line := range splitLines(diff) {
		if strings.HasPrefix(line, "@@ ") {
			place := strings.Split(strings.TrimPrefix(strings.Fields(line)[1], "-"), ",")
			start, _ := strconv.Atoi(place[0])
			if place[1] != "0" {
				start--
			}
			out = append(out, old[next:start]...)
			next = start
			continue
		}
		switch text := line[1:]; line[0] {
		case '+':
			out = append(out, text)
		case ' ', '-':
			if next >= len(old) || old[next] != text {
				t.Fatalf("line %d is %q, and the difference says %q", next, old[next:], text)
			}
			if line[0] == ' ' {
				out = append(out, text)
			}
			next++
		}
	}
	return strings.Join(append(out, old[next:]...), "\n")
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestTextDiff(t *testing.T) {
	numbered := func(n int, change map[int]string) string {
		var lines []string
		for i := range n {
			text := fmt.Sprint("line ", i)
			if changed, ok := change[i]; ok {
				text = changed
			}
			lines = append(lines, text)
		}
		return joined(lines)
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"same", "a\nb\n", "a\nb\n", ""},
		{"from nothing", "", "a\n", "@@ -0,0 +1,1 @@\n+a\n"},
		{"to nothing", "a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"in the middle", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"far apart", numbered(20, nil), numbered(20, map[int]string{1: "x", 15: "y"}),
			"@@ -1,5 +1,5 @@\n line 0\n-line 1\n+x\n line 2\n line 3\n line 4\n" +
				"@@ -13,7 +13,7 @@\n line 12\n line 13\n line 14\n-line 15\n+y\n line 16\n line 17\n line 18\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := textDiff(c.before, c.after); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestDiffIsShortest: as many changed lines as diff itself finds.
func TestDiffIsShortest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() []string {
		lines := make([]string, random.IntN(40))
		for i := range lines {
			lines[i] = string(rune('a' + random.IntN(5)))
		}
		return lines
	}
	for range 500 {
		before, after := text(), text()
		diff := textDiff(joined(before), joined(after))
		if got := patched(t, joined(before), diff); got != strings.Join(after, "\n") {
			t.Fatalf("%q to %q: the difference gives %q:\n%s", before, after, got, diff)
		}
		changes := 0
		for _, edit := range diffLines(before, after) {
			if edit.sign != ' ' {
				changes++
			}
		}
		if want := len(before) + len(after) - 2*longestCommon(before, after); changes != want {
			t.Fatalf("%q to %q: %d changes, and %d are enough:\n%s", before, after, changes, want, diff)
		}
	}
}

// longestCommon is the length of the longest list of lines that both have in
// this order.
func longestCommon(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, line := range a {
		diagonal := 0
		for j := range b {
			above := row[j+1]
			if line == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j], above)
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// TestDiffOfLargeTexts: texts that have nothing in common cost no more than
// their size.
func TestDiffOfLargeTexts(t *testing.T) {
	lines := func(prefix string) string {
		var all []string
		for i := range 20_000 {
			all = append(all, prefix+strconv.Itoa(i))
		}
		return joined(all)
	}
	before, after := lines("a"), lines("b")
	if got := patched(t, before, textDiff(before, after)); got+"\n" != after {
		t.Error("the difference does not give the other text")
	}
}

func FuzzTextDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd\n")
	f.Add("", "x\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		diff := textDiff(before, after)
		if got, want := patched(t, before, diff), strings.Join(splitLines(after), "\n"); got != want {
			t.Errorf("%q to %q: the difference gives %q:\n%s", before, after, got, diff)
		}
	})
}
