package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const address = "https://git.example/shop"

func appNamed(name string) tracking.App { return tracking.App{Namespace: "apps", Name: name} }

func sourceAt(revision string) []v1alpha1.ApplicationSource {
	return []v1alpha1.ApplicationSource{{RepoURL: address, Path: "web", TargetRevision: revision}}
}

func names(apps []tracking.App) string {
	var texts []string
	for _, one := range apps {
		texts = append(texts, one.Name)
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// One look at a repository tells exactly those for whom something is new.
func TestRepositoryTellsItsUsers(t *testing.T) {
	r := newRepositories()
	main, stable := sourceRef{repository: address, revision: "main"}, sourceRef{repository: address, revision: "stable"}
	r.use(appNamed("a"), sourceAt("main"))
	r.use(appNamed("b"), sourceAt("main"))
	r.use(appNamed("c"), sourceAt("stable"))
	at := noon()
	if _, _, known := r.lookup(appNamed("a"), main, time.Time{}); known {
		t.Fatal("there is an answer before anybody asked")
	}
	away := &source.Error{Kind: source.Unreachable, Message: "away"}
	denied := &source.Error{Kind: source.Denied, Message: "no"}
	steps := []struct {
		what    string
		found   map[sourceRef]string
		failure error
		want    string
		tries   int
	}{
		{"who waits is told", map[sourceRef]string{main: "1", stable: "1"}, nil, "a", 0},
		{"nothing new", map[sourceRef]string{main: "1", stable: "1"}, nil, "", 0},
		{"main has moved", map[sourceRef]string{main: "2", stable: "1"}, nil, "a b", 0},
		{"away once", nil, away, "", 1},
		{"back after once", map[sourceRef]string{main: "2", stable: "1"}, nil, "", 0},
		{"away once more", nil, away, "", 1},
		{"away twice", nil, away, "a b c", 2},
		{"still away", nil, away, "", 3},
		{"away in another way", nil, denied, "a b c", 0},
		{"back", map[sourceRef]string{main: "2", stable: "1"}, nil, "a b c", 0},
		{"stable is gone", map[sourceRef]string{main: "2", stable: "error: gone"}, nil, "c", 0},
	}
	for _, step := range steps {
		at = at.Add(time.Minute)
		if got := names(r.update(address, at, step.found, step.failure)); got != step.want {
			t.Errorf("%s: told are %q, want %q", step.what, got, step.want)
		}
		if tries, _ := r.failures(address); tries != step.tries {
			t.Errorf("%s: %d failures in a row, want %d", step.what, tries, step.tries)
		}
	}
	asked, failure, known := r.lookup(appNamed("a"), main, at)
	if !known || failure != nil || !asked.Equal(at) {
		t.Errorf("the answer is of %v, with %v", asked, failure)
	}
	if _, _, known := r.lookup(appNamed("a"), main, at.Add(time.Second)); known {
		t.Error("an answer is known that is older than what was asked for")
	}
}

// A repository that nobody uses is forgotten.
func TestRepositoryIsForgotten(t *testing.T) {
	r := newRepositories()
	r.use(appNamed("a"), sourceAt("main"))
	r.use(appNamed("b"), sourceAt("main"))
	r.use(appNamed("a"), []v1alpha1.ApplicationSource{{RepoURL: "https://git.example/other"}})
	if got := len(r.addresses(false)); got != 2 {
		t.Errorf("%d repositories, want 2", got)
	}
	r.forget(appNamed("b"))
	if got := r.addresses(false); len(got) != 1 || got[0] == address {
		t.Errorf("the repositories are %v", got)
	}
	if told := r.update(address, noon(), nil, nil); told != nil {
		t.Errorf("a forgotten repository tells %v", told)
	}
}
