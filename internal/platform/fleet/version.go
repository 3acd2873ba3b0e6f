package fleet

import (
	"strconv"
	"strings"
)

// newer reports whether one released version is after another (R112).
// Versions that are not releases, such as builds of a commit, compare as
// neither newer nor older.
func newer(sendOne, other string) bool {
	a, okA := release(sendOne)
	b, okB := release(other)
	if !okA || !okB {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

// release parses a version such as v1.2.3.
func release(text string) (numbers [3]int, ok bool) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) != len(numbers) {
		return numbers, false
	}
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return numbers, false
		}
		numbers[i] = int(number)
	}
	return numbers, true
}
