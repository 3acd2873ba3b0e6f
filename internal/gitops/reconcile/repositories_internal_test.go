package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

// shop is a repository as the project team reads it.
var shop = repositoryKey{address.Address{Scheme: address.HTTPS, Host: "git.example", Path: "shop"}, "team"}

func appNamed(name string) tracking.App { return tracking.App{Namespace: "apps", Name: name} }

func sourceAt(revision string) []project.Admitted {
	admitted, _ := project.Unlimited("team").Admit(v1alpha1.ApplicationSource{RepoURL: "https://git.example/shop", Path: "web", TargetRevision: revision})
	return []project.Admitted{admitted}
}

func names(apps []tracking.App) string {
	var texts []string
	for _, one := range apps {
		texts = append(texts, one.Name)
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// One poll of a repository triggers exactly the Applications for which something is new.
func TestRepositoryTellsItsUsers(t *testing.T) {
	r := newRepositories()
	main, stable := sourceRef{repository: shop, revision: "main"}, sourceRef{repository: shop, revision: "stable"}
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
		if got := names(r.update(shop, at, step.found, step.failure)); got != step.want {
			t.Errorf("%s: told are %q, want %q", step.what, got, step.want)
		}
		if tries, _ := r.failures(shop.address); tries != step.tries {
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

// A repository without users is forgotten.
func TestRepositoryIsForgotten(t *testing.T) {
	r := newRepositories()
	r.use(appNamed("a"), sourceAt("main"))
	r.use(appNamed("b"), sourceAt("main"))
	other := must.Get(project.Unlimited("team").Admit(v1alpha1.ApplicationSource{RepoURL: "https://git.example/other"}))(t)
	r.use(appNamed("a"), []project.Admitted{other})
	if got := len(r.addresses(false)); got != 2 {
		t.Errorf("%d repositories, want 2", got)
	}
	r.forget(appNamed("b"))
	if got := r.addresses(false); len(got) != 1 || got[0] == shop.address {
		t.Errorf("the repositories are %v", got)
	}
	if told := r.update(shop, noon(), nil, nil); told != nil {
		t.Errorf("a forgotten repository tells %v", told)
	}
}

// Projects read a repository on their own: what fails for one does not fail for
// the other, and one poll is for both.
func TestRepositoryOfTwoProjects(t *testing.T) {
	r := newRepositories()
	r.use(appNamed("a"), sourceAt("main"))
	theirs := must.Get(project.Unlimited("other").Admit(v1alpha1.ApplicationSource{RepoURL: "https://git.example/shop", TargetRevision: "main"}))(t)
	r.use(appNamed("b"), []project.Admitted{theirs})
	if got := r.readersOf(shop.address); len(got) != 2 || len(r.addresses(false)) != 1 {
		t.Fatalf("the readers are %v", got)
	}
	other := repositoryKey{shop.address, "other"}
	for key, want := range map[repositoryKey]string{shop: "team", other: "other"} {
		for _, named := range r.refsOf(key) {
			if named.Project() != want {
				t.Errorf("%s is resolved for project %s", want, named.Project())
			}
		}
	}
	r.update(other, noon(), nil, &source.Error{Kind: source.Denied, Message: "no"})
	r.update(shop, noon(), map[sourceRef]string{refOf(sourceAt("main")[0]): "1"}, nil)
	if _, failure, known := r.lookup(appNamed("a"), refOf(sourceAt("main")[0]), time.Time{}); !known || failure != nil {
		t.Errorf("the failure of another project is %v, known %t", failure, known)
	}
	if _, failure, known := r.lookup(appNamed("b"), refOf(theirs), time.Time{}); !known || failure == nil {
		t.Errorf("its own failure is %v, known %t", failure, known)
	}
	if failing := r.addresses(true); len(failing) != 1 {
		t.Errorf("%v fail", failing)
	}
}
