package reconcile

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

func version(number string, change func(*v1alpha1.Application)) *v1alpha1.Application {
	app := sample()
	app.ResourceVersion = number
	if change != nil {
		change(app)
	}
	return app
}

// What is known already makes no work: the echo of our own writes, and what
// comes late.
func TestBookTellsWhatIsNews(t *testing.T) {
	b := newStore("apps", nil)
	put := func(what string, app *v1alpha1.Application, want reason) {
		t.Helper()
		if got := b.put(app, nil); got != want {
			t.Errorf("%s: the reason is %b, want %b", what, got, want)
		}
	}
	put("new", version("5", nil), reasonChange)
	put("the same", version("5", nil), 0)
	put("older", version("4", nil), 0)
	put("another spec", version("6", func(app *v1alpha1.Application) { app.Spec.Project = "team" }), reasonChange)
	b.update(version("8", func(app *v1alpha1.Application) { app.Spec.Project = "team" }), nil)
	put("the echo of our write", version("8", nil), 0)
	put("what came before our write", version("7", nil), 0)
	put("a status that others wrote", version("9", func(app *v1alpha1.Application) {
		app.Spec.Project, app.Status.Health.Status = "team", v1alpha1.Degraded
	}), reasonTimer)
	put("an operation is ended", version("10", func(app *v1alpha1.Application) {
		app.Spec.Project, app.Status.OperationState = "team", &v1alpha1.OperationState{Phase: v1alpha1.OperationTerminating}
	}), reasonChange)
	put("made again", version("3", func(app *v1alpha1.Application) { app.UID = "other" }), reasonChange)
	id := tracking.App{Namespace: "apps", Name: "web"}
	b.remove(id, "u")
	if found, _, _ := b.get(id); found == nil {
		t.Error("the end of the old one took the new one")
	}
	b.remove(id, "other")
	if _, known := b.byLabel(id.Label()); known {
		t.Error("the label of what is gone is known")
	}
}

// Only the Applications of a project are looked at when it changes.
func TestBookKnowsProjects(t *testing.T) {
	b := newStore("apps", nil)
	b.put(version("1", nil), nil)
	b.put(version("1", func(app *v1alpha1.Application) { app.Name, app.Spec.Project = "other", "team" }), nil)
	team := &v1alpha1.AppProject{}
	team.Name, team.ResourceVersion = "team", "7"
	want := []tracking.App{{Namespace: "apps", Name: "other"}}
	if got := b.putProject(team, nil); !slices.Equal(got, want) {
		t.Errorf("looked at are %v, want %v", got, want)
	}
	if got := b.putProject(team, nil); got != nil {
		t.Errorf("the same project again has %v looked at", got)
	}
	if b.project("team") == nil || b.project("nobody") != nil || b.project(v1alpha1.DefaultProject) == nil {
		t.Error("the projects are not the one that was made and the default")
	}
	if got := b.removeProject("team"); !slices.Equal(got, want) || b.project("team") != nil {
		t.Errorf("after its end looked at are %v", got)
	}
}

// Applications of the projects that have it as a global one depend on a project, also those of
// the project default that was not created.
func TestBookKnowsGlobalProjects(t *testing.T) {
	setting := project.ReadGlobals("[{projectName: base}]")
	b := newStore("apps", func() *project.Globals { return setting })
	b.put(version("1", nil), nil)
	b.put(version("1", func(app *v1alpha1.Application) { app.Name, app.Spec.Project = "other", "team" }), nil)
	put := func(name, version string, kinds ...v1alpha1.ResourceRule) int {
		given := &v1alpha1.AppProject{}
		given.Name, given.ResourceVersion, given.Spec.NamespaceResourceBlacklist = name, version, kinds
		return len(b.putProject(given, nil))
	}
	limited := func(name string) bool {
		compiled := b.project(name)
		refused := compiled.project.Gate(v1alpha1.ApplicationDestination{Server: project.LocalServer, Namespace: "x"}, true).
			Allows(tracking.Key{Kind: "Secret", Namespace: "x", Name: "a"}, nil, "apps")
		return len(compiled.refused) == 0 && refused != nil && strings.Contains(refused.Message, "namespaceResourceBlacklist")
	}
	put("team", "1")
	if len(b.project("team").refused) == 0 || len(b.project(v1alpha1.DefaultProject).refused) == 0 {
		t.Error("projects without their global one are not refused")
	}
	if got := put("base", "2", v1alpha1.ResourceRule{Kind: "Secret"}); got != 2 || !limited("team") || !limited(v1alpha1.DefaultProject) {
		t.Errorf("the global project concerns %d Applications, want both", got)
	}
	if got := put("base", "3"); got != 2 || limited("team") || limited(v1alpha1.DefaultProject) {
		t.Errorf("its change concerns %d Applications, want both", got)
	}
	put("base", "4", v1alpha1.ResourceRule{Kind: "Secret"})
	if got := put("team", "5"); got != 1 || !limited("team") {
		t.Errorf("a project concerns %d Applications, want its own", got)
	}
	setting = project.ReadGlobals("")
	b.globalsChanged()
	if limited("team") {
		t.Error("a setting of before counts")
	}
	setting = project.ReadGlobals("[{projectName: base}]")
	b.globalsChanged()
	if got := len(b.removeProject("base")); got != 2 || len(b.project("team").refused) == 0 {
		t.Errorf("the end of the global project concerns %d Applications, want both", got)
	}
}

// Kinds are swept only when all that is needed is known.
func TestBookKnowsNeededKinds(t *testing.T) {
	b := newStore("apps", nil)
	b.put(version("1", nil), nil)
	b.put(version("1", func(app *v1alpha1.Application) { app.Name, app.UID = "other", types.UID("o") }), nil)
	first, _, _ := b.get(tracking.App{Namespace: "apps", Name: "web"})
	second, _, _ := b.get(tracking.App{Namespace: "apps", Name: "other"})
	pods, jobs := schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Group: "batch", Kind: "Job"}
	all := func(tracking.App) bool { return true }
	b.setKinds(first, []schema.GroupKind{pods, jobs})
	if _, known := b.neededKinds(all); known {
		t.Error("all is known before the second was looked at")
	}
	if _, known := b.neededKinds(func(id tracking.App) bool { return id.Name == "web" }); !known {
		t.Error("an Application of another process is waited for")
	}
	b.setKinds(second, []schema.GroupKind{})
	if kinds, known := b.neededKinds(all); !known || len(kinds) != 2 {
		t.Errorf("needed are %v", kinds)
	}
	if b.setKinds(first, []schema.GroupKind{pods, jobs}) || !b.setKinds(first, []schema.GroupKind{pods}) {
		t.Error("that a kind is needed no more is told wrongly")
	}
}
