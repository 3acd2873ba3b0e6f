package inspect

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// diffContext is the number of equal lines around a change.
	diffContext = 3
	// diffEffort bounds the search for a short diff, whose memory grows with
	// the square. Texts that differ more are shown as replaced.
	diffEffort = 1500
)

// lineEdit is one line of a diff: ' ' in both, '-' in the first only, '+' in
// the second only.
type lineEdit struct {
	sign byte
	text string
}

// UnifiedDiff returns the diff of two objects in YAML, in the format of diff -u
// without the two lines of names. Either may be nil. It is empty if they are
// equal.
func UnifiedDiff(before, after *unstructured.Unstructured) (string, error) {
	from, err := objectText(before)
	if err != nil {
		return "", err
	}
	to, err := objectText(after)
	return textDiff(from, to), err
}

// textDiff is UnifiedDiff for texts.
func textDiff(before, after string) string {
	edits := diffLines(splitLines(before), splitLines(after))
	var out strings.Builder
	for _, hunk := range hunksOf(edits) {
		hunk.write(&out, edits)
	}
	return out.String()
}

// splitLines splits a text; an empty text has no lines.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// diffLines returns the edits from one list of lines to another. Common lines
// at both ends are cut first. Objects mostly differ in few lines, so that the
// quadratic part sees a small middle.
func diffLines(before, after []string) []lineEdit {
	start := 0
	for start < len(before) && start < len(after) && before[start] == after[start] {
		start++
	}
	end := 0
	for end < len(before)-start && end < len(after)-start && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	var edits []lineEdit
	for _, line := range before[:start] {
		edits = append(edits, lineEdit{' ', line})
	}
	edits = append(edits, shortestEdit(before[start:len(before)-end], after[start:len(after)-end])...)
	for _, line := range before[len(before)-end:] {
		edits = append(edits, lineEdit{' ', line})
	}
	return edits
}

// shortestEdit is Myers' greedy algorithm: after d edits, furthest[k] is the
// furthest position in before on the diagonal k. The state after each number of
// edits is kept to walk back.
func shortestEdit(before, after []string) []lineEdit {
	n, m := len(before), len(after)
	most := min(n+m, diffEffort)
	furthest := make([]int, 2*most+3)
	middle := most + 1
	var trail [][]int
	for d := 0; d <= most; d++ {
		trail = append(trail, slices.Clone(furthest[middle-d-1:middle+d+2]))
		for k := -d; k <= d; k += 2 {
			x := furthest[middle+k-1] + 1
			if k == -d || k != d && furthest[middle+k-1] < furthest[middle+k+1] {
				x = furthest[middle+k+1]
			}
			y := x - k
			for x < n && y < m && before[x] == after[y] {
				x, y = x+1, y+1
			}
			furthest[middle+k] = x
			if x >= n && y >= m {
				return walkBack(before, after, trail)
			}
		}
	}
	return replaced(before, after)
}

// walkBack follows the trail from the end to the start. It repeats the choice
// of shortestEdit at each number of edits, and collects the lines in reverse.
func walkBack(before, after []string, trail [][]int) []lineEdit {
	x, y := len(before), len(after)
	var edits []lineEdit
	for d := len(trail) - 1; d >= 0; d-- {
		at := func(k int) int { return trail[d][k+d+1] }
		k := x - y
		from := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			from = k + 1
		}
		startX := at(from)
		startY := startX - from
		for x > startX && y > startY && x > 0 && y > 0 {
			x, y = x-1, y-1
			edits = append(edits, lineEdit{' ', before[x]})
		}
		switch {
		case d == 0:
		case from == k+1:
			y--
			edits = append(edits, lineEdit{'+', after[y]})
		default:
			x--
			edits = append(edits, lineEdit{'-', before[x]})
		}
	}
	slices.Reverse(edits)
	return edits
}

// replaced deletes all lines and adds all others.
func replaced(before, after []string) []lineEdit {
	var edits []lineEdit
	for _, line := range before {
		edits = append(edits, lineEdit{'-', line})
	}
	for _, line := range after {
		edits = append(edits, lineEdit{'+', line})
	}
	return edits
}

// diffHunk is a range of edits to show, and the lines it starts after.
type diffHunk struct {
	from, to      int // in the edits
	before, after int
}

// hunksOf groups changes with the lines around them. Changes whose contexts
// touch share a hunk, as in diff -u.
func hunksOf(edits []lineEdit) []diffHunk {
	var hunks []diffHunk
	before, after := 0, 0
	for i, edit := range edits {
		if edit.sign != ' ' {
			from := max(0, i-diffContext)
			if last := len(hunks) - 1; last >= 0 && hunks[last].to >= from {
				hunks[last].to = min(len(edits), i+1+diffContext)
			} else {
				hunks = append(hunks, diffHunk{from: from, to: min(len(edits), i+1+diffContext), before: before - (i - from), after: after - (i - from)})
			}
		}
		if edit.sign != '+' {
			before++
		}
		if edit.sign != '-' {
			after++
		}
	}
	return hunks
}

// write formats the hunk.
func (h diffHunk) write(out *strings.Builder, edits []lineEdit) {
	removed, added := 0, 0
	for _, edit := range edits[h.from:h.to] {
		if edit.sign != '+' {
			removed++
		}
		if edit.sign != '-' {
			added++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", lineRange(h.before, removed), lineRange(h.after, added))
	for _, edit := range edits[h.from:h.to] {
		fmt.Fprintf(out, "%c%s\n", edit.sign, edit.text)
	}
}

// lineRange formats a range. An empty one is after the line before it.
func lineRange(before, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", before)
	}
	return fmt.Sprintf("%d,%d", before+1, count)
}
