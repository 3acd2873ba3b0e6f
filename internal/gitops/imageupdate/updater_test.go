package imageupdate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/programs"
)

// awaitCondition waits for the condition of an ImageUpdater.
func (w *world) awaitCondition(t *testing.T, name, reason, part string) {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "argocd-image-updater.argoproj.io", Version: "v1alpha1", Resource: "imageupdaters"}
	programs.Eventually(t, func(ctx context.Context) error {
		object, err := w.Dynamic.Resource(resource).Namespace(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "reason:"+reason) || !strings.Contains(text, part) {
			return fmt.Errorf("the conditions of %s are %s", name, text)
		}
		return nil
	})
}

// updater is an ImageUpdater with the fields of its spec.
func (w *world) updater(t *testing.T, name, spec string) {
	t.Helper()
	w.Cluster.Apply(t, w.namespace, strings.ReplaceAll("apiVersion: argocd-image-updater.argoproj.io/v1alpha1\nkind: ImageUpdater\nmetadata: {name: "+name+"}\nspec:\n"+spec, "REG", w.registry))
}

// TestImageUpdaters: the examples of the migration guide, levels of settings, and two
// that name the same image: the older one updates it, and the other has a condition.
func TestImageUpdaters(t *testing.T) {
	w := newWorld(t)
	w.DefineFiles(t, "testdata/imageupdater.yaml")
	for i, tag := range []string{"1.20.0", "1.21.0", "dev"} {
		w.push(t, "team/nginx", tag, day(i+1))
		w.push(t, "team/redis", tag, day(i+1))
	}
	repository := w.git.Repository(t, "updaters", map[string]string{
		"production/values.yaml": "nginx: {tag: 1.19.0} # web\nredis:\n  image: x\n  tag: old\n", "staging/values.yaml": "image: {tag: x}\n",
	})
	for _, name := range []string{"production", "staging"} {
		w.apply(t, application{name: name, path: name, kind: "Helm", repoURL: repository.URL(), images: []string{"REG/team/nginx:1.19.0", "REG/team/redis:1.0.0"}})
	}
	w.updater(t, "a-first", `
  commonUpdateSettings: {updateStrategy: newest-build, ignoreTags: [dev]}
  writeBackConfig: {method: git, gitConfig: {writeBackTarget: "helmvalues:./values.yaml"}}
  applicationRefs:
  - namePattern: "prod*"
    images:
    - alias: nginx
      imageName: "REG/team/nginx:1.20"
      commonUpdateSettings: {updateStrategy: semver, allowTags: "regexp:^[0-9.]+$"}
      manifestTargets: {helm: {tag: nginx.tag}}
    - alias: redis
      imageName: "REG/team/redis"
      manifestTargets: {helm: {name: redis.image, tag: redis.tag}}
`)
	w.start(t, quick)
	w.awaitFile(t, repository, gittest.Main, "production/values.yaml", "nginx: {tag: 1.20.0} # web\nredis:\n  image: REG/team/redis\n  tag: 1.21.0\n")
	w.awaitCondition(t, "a-first", "Reconciled", "2 images of 1 Applications")
	// A second one for the same image and another Application.
	w.updater(t, "b-second", `
  writeBackConfig: {method: git, gitConfig: {writeBackTarget: "helmvalues:values.yaml"}}
  applicationRefs:
  - namePattern: "*"
    images: [{alias: nginx, imageName: "REG/team/nginx:1.x"}]
`)
	w.awaitFile(t, repository, gittest.Main, "staging/values.yaml", "image: {tag: 1.21.0}\n")
	w.awaitCondition(t, "b-second", "Refused", "of the Application production is updated by the ImageUpdater a-first, which is older")
	if got := repository.Git(t, "show", "main:production/values.yaml"); !strings.Contains(got, "nginx: {tag: 1.20.0}") {
		t.Errorf("the younger one has changed the file:\n%s", got)
	}
	for name, tt := range map[string]struct{ spec, want string }{
		"unknown":     {"  applicationRefs: [{namePattern: x, imagez: []}]\n", `unknown field \"imagez\"`},
		"namespace":   {"  namespace: kube-system\n  applicationRefs: []\n", "spec.namespace: an ImageUpdater is for Applications of its own namespace"},
		"method":      {"  applicationRefs: [{namePattern: staging, images: [{alias: a, imageName: other}]}]\n", "writeBackConfig.method: the method argocd changes the Application"},
		"pullrequest": {"  writeBackConfig: {method: git, gitConfig: {branch: 'main:other', pullRequest: {github: {}}}}\n  applicationRefs: [{namePattern: staging, images: [{alias: a, imageName: other2}]}]\n", "gitConfig.branch: pull requests have branches of their own"},
	} {
		w.updater(t, name, tt.spec)
		w.awaitCondition(t, name, "Refused", strings.ReplaceAll(tt.want, `\"`, `"`))
	}
}
