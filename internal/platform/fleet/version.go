package fleet

import (
	"strconv"
	"strings"
)

// newer says whether one released version comes after another (R112). What is not
// a release, such as a build of a commit, is neither newer nor older.
func newer(one, other string) bool {
	a, okA := release(one)
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

// release reads v1.2.3.
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
