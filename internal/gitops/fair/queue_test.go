package fair_test

import (
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/fair"
)

// projectsOf are those before the dash of an item, with a plus between them.
func projectsOf(item string) []string {
	names, _, _ := strings.Cut(item, "-")
	return strings.Split(names, "+")
}

// What two projects share comes with the first turn of either, and once.
func TestQueueOfSharedItems(t *testing.T) {
	q := fair.NewQueue(projectsOf)
	for i := range 10 {
		q.Push(fmt.Sprint("slow-", i))
	}
	q.Push("slow+good-0")
	q.Push("slow-10")
	var taken []string
	for q.Len() > 0 {
		taken = append(taken, q.Pop())
	}
	got := strings.Join(taken, " ")
	if at := strings.Index(got, "slow+good-0"); at < 0 || at > len("slow-0 ") {
		t.Errorf("taken are %s", got)
	}
	if len(taken) != 12 || strings.Count(got, "slow+good-0") != 1 {
		t.Errorf("taken are %s", got)
	}
	for _, one := range taken {
		q.Release(one)
	}
	// What is left of the shared item in the other turn is not handed out.
	q.Push("slow-11")
	q.Push("slow-12")
	if a, b := q.Pop(), q.Pop(); a != "slow-11" || b != "slow-12" || q.Len() != 0 {
		t.Errorf("taken are %s and %s", a, b)
	}
}

// Items without a project are one project of their own.
func TestQueueWithoutProjects(t *testing.T) {
	q := fair.NewQueue(func(int) []string { return nil })
	for i := range 3 {
		q.Push(i)
	}
	for i := range 3 {
		if got := q.Pop(); got != i || q.Held(got) != i+1 {
			t.Errorf("taken is %d, of %d", got, q.Held(got))
		}
	}
}
