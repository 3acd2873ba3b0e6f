package gitops

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// testLFS commits a pointer of Git LFS. Without enableLfs nothing is applied or
// pruned, and the condition has the file and the field. With it the content is
// fetched from the server of Git LFS, with the credentials of the repository.
func (s *suite) testLFS(t *testing.T) {
	control, target := s.cluster.Namespace(t), s.cluster.Namespace(t)
	git := gittest.Serve(t, gittest.BasicAuth("ada", "s3cr3t"))
	repository := git.Repository(t, "large", settings("small"))
	secret := func(more string) {
		s.cluster.Apply(t, control, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: large, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: %q, username: ada, password: s3cr3t%s}
`, repository.URL(), more))
	}
	secret("")
	s.start(t, control)
	s.application(t, control, target, "large", mainOf(repository))
	apps := s.applications(control)
	agentprocess.Await(t, apps, "large", agentprocess.InOrder(repository.Head(t)))
	commit := repository.Commit(t, map[string]string{"app/settings.yaml": git.Pointer(settings("large")["app/settings.yaml"])}, "large")
	app := agentprocess.Await(t, apps, "large", func(app *v1alpha1.Application) error {
		if text := agentprocess.Reported(app); !strings.Contains(text, "app/settings.yaml: it is a pointer of Git LFS") || !strings.Contains(text, "enableLfs") {
			return errors.New(text)
		}
		return nil
	})
	if app.Status.Sync.Status == v1alpha1.SyncSynced {
		t.Error("it is Synced without the file")
	}
	value := func() string {
		return must.Get(s.cluster.Client.CoreV1().ConfigMaps(target).Get(t.Context(), "settings", metav1.GetOptions{}))(t).Data["value"]
	}
	if got := value(); got != "small" {
		t.Errorf("without the file the value is %q", got)
	}
	secret(`, enableLfs: "true"`)
	agentprocess.Await(t, apps, "large", agentprocess.InOrder(commit))
	if got := value(); got != "large" {
		t.Errorf("the value is %q", got)
	}
}
