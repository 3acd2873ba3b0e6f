package reconcile_test

import (
	"errors"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// Fields that Argo CD ignores do not stop an application: it syncs, and a
// condition names each until it is removed.
func TestIgnoredFieldsAreShown(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.project("team", `orphanedResources: {warn: true}`)
	w.start()
	w.applicationIn("team", "web", repository, "web", `{automated: {}, syncOptions: [CreateNamespaces=true]}`)
	w.synced("web", repository.Head(t))
	w.value("one", "1")
	w.condition("web", v1alpha1.ConditionIgnoredFieldWarning, "AppProject team: spec.orphanedResources: it has no effect")
	w.condition("web", v1alpha1.ConditionIgnoredFieldWarning, "spec.syncPolicy.syncOptions[0]: it has no effect")

	w.project("team", ``)
	w.patch("web", `{"spec": {"syncPolicy": {"syncOptions": null}}}`)
	w.wait("web", func(app *v1alpha1.Application) error {
		for _, one := range app.Status.Conditions {
			if one.Type == v1alpha1.ConditionIgnoredFieldWarning {
				return errors.New("it still has: " + one.Message)
			}
		}
		return nil
	})
}
