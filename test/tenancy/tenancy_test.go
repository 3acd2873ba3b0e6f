package tenancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/test/binary"
)

// labelOfBank is the label of the objects of bank's Application.
var labelOfBank = tracking.App{Namespace: bank, Name: "site"}.Label()

// attempts are all that evil tries.
func attempts() []attempt {
	var filled []attempt
	for _, one := range slices.Concat(hostAttempts(), authAttempts(), gatewayAttempts(), listenerAttempts(), routeAttempts(), sourceAttempts(), dependencyAttempts(), operationAttempts(), objectAttempts(), controlAttempts(), setAttempts()) {
		filled = append(filled, one.fill())
	}
	return filled
}

// TestTenants: no attempt has an effect, and each is refused with a reason.
func TestTenants(t *testing.T) {
	w := newWorld(t, binary.Path(t))
	w.eventually(t, "bank is served", func(context.Context) error {
		got, err := w.ask("api.bank.example/v1")
		if err == nil && got != bank {
			err = fmt.Errorf("by %s", got)
		}
		return err
	})
	w.eventually(t, "bank is served by its routes", func(context.Context) error { return gatewaysServe(w) })
	w.eventually(t, "bank is synced", func(context.Context) error { return synced(w) })
	tried := attempts()
	if len(tried) < 100 {
		t.Fatalf("only %d attempts", len(tried))
	}
	w.start(t, tried)
	missing := w.awaitReasons(t, tried)
	for _, a := range tried {
		t.Run(a.name, func(t *testing.T) {
			if err := errors.Join(missing[a.name], a.proof(w)); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("statuses of others", w.unharmed)
	t.Run("late routes", w.lateRoutes)
	t.Run("again and younger", w.recreated)
	t.Run("forged", w.forged)
	t.Run("addresses become free", w.freesAddresses)
	t.Run("own hosts", w.ownHosts)
	t.Run("own routes", w.ownRoutes)
	t.Run("own applications", w.ownApplications)
}

// start makes attempts: first everything that they need, then all at once.
func (w *world) start(t *testing.T, tried []attempt) {
	t.Helper()
	files, names := map[string]string{}, map[string]bool{}
	for _, a := range tried {
		if names[a.name] {
			t.Fatalf("two attempts are called %s", a.name)
		}
		names[a.name] = true
		maps.Copy(files, a.files())
		if a.prepares != "" {
			w.admin.must(t, a.prepares)
		}
	}
	w.sources.apps.Commit(t, files, "attempts")
	w.remember(t, "Namespace evil", "Namespace bank", "CustomResourceDefinition applications.argoproj.io", "AppProject slipway/evil-apps", "Deployment slipway/slipway-agent")
	for _, a := range tried {
		for _, kind := range []string{"Application", "ApplicationSet"} {
			if object := kind + " slipway/" + a.name + "-bank"; strings.Contains(a.prepares, "kind: "+kind+"\n") && strings.Contains(a.prepares, a.name+"-bank") {
				w.remember(t, object)
			}
		}
	}
	for _, a := range tried {
		w.apply(t, &a)
	}
	for _, a := range tried {
		w.followUp(t, &a)
	}
}

// files are those of the attempt in evil's repository.
func (a *attempt) files() map[string]string {
	if a.git == "" {
		return nil
	}
	archive := txtar.Parse([]byte(a.git))
	if len(archive.Files) == 0 {
		return map[string]string{a.name + "/objects.yaml": a.git}
	}
	files := map[string]string{}
	for _, file := range archive.Files {
		files[a.name+"/"+file.Name] = string(file.Data)
	}
	return files
}

// ownApplications: what evil may do still works, with the same projects.
func (w *world) ownApplications(t *testing.T) {
	own := attempt{name: "honest", git: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"}.fill()
	rooted := attempt{name: "honest-root", applies: root("evil-apps"), git: "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: NAME-child}\nspec: {project: evil-apps, source: {repoURL: \"http://localhost/evil/apps\", path: honest}, destination: {namespace: evil}}\n"}.fill()
	charted := attempt{name: "honest-chart", applies: from(evil, `source: {repoURL: "http://localhost/charts/evil", chart: own, targetRevision: 1.0.0}`)}.fill()
	w.start(t, []attempt{own, rooted, charted})
	for _, object := range []string{"ConfigMap evil/honest", "Application slipway/honest-root-child", "ConfigMap evil/honest-chart"} {
		w.eventually(t, object, func(context.Context) error { return present(object)(w) })
	}
}

// now is the time of forged statuses.
func now(later time.Duration) string { return time.Now().UTC().Add(later).Format(time.RFC3339) }
