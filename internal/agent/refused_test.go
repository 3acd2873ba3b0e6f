package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestRefusedSecretsAreShown: an Application whose repository or cluster has a
// Secret that is refused shows which field of it, and works once it is corrected.
func TestRefusedSecretsAreShown(t *testing.T) {
	w := newWorld(t)
	const password = "open-this-door"
	repository := gittest.Serve(t, gittest.BasicAuth("ada", password)).Repository(t, "app", content("secret"))
	r := w.start(t, "one")
	r.readyWhen(t, "")
	secret := func(fields string) {
		w.apply(t, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: door, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: %q, %s}
`, repository.URL(), fields))
	}
	shows := func(name, text string) {
		w.await(t, name, func(status map[string]any) error {
			if got := fmt.Sprint(status["conditions"]); !strings.Contains(got, text) {
				return errors.New("no condition has " + text + ": " + got)
			}
			return nil
		})
	}
	secret(`useAzureWorkloadIdentity: "true"`)
	w.application(t, "app", repository.URL())
	shows("app", "the Secret "+w.control+"/door is refused: the field useAzureWorkloadIdentity is not supported: write username and password")

	w.apply(t, `apiVersion: v1
kind: Secret
metadata: {name: cloud, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: cloud, server: "https://cloud.example:6443", config: '{"execProviderConfig": {"command": "aws"}}'}
`)
	patch := func(text string) {
		client := w.Dynamic.Resource(applications).Namespace(w.control)
		must.Get(client.Patch(t.Context(), "app", types.MergePatchType, []byte(text), metav1.PatchOptions{}))(t)
	}
	patch(`{"spec": {"destination": {"server": null, "name": "cloud"}}}`)
	shows("app", "the cluster cloud cannot be used: its Secret "+w.control+"/cloud is refused: the field config has a program run")
	patch(`{"spec": {"destination": {"server": "https://kubernetes.default.svc", "name": null}}}`)

	must.Do(t, w.Client.CoreV1().Secrets(w.control).Delete(t.Context(), "door", metav1.DeleteOptions{}))
	secret("username: ada, password: " + password)
	w.syncedTo(t, "app", repository.Head(t))
}

// TestArgoSettingsAreReported: settings of Argo CD that have no effect are in the
// log and in an Event of their ConfigMap.
func TestArgoSettingsAreReported(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata: {timeout.reconciliation: 60s, url: https://argocd.example.com}\n")
	w.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cmd-params-cm}\ndata: {application.namespaces: team-*, redis.server: cache, resource.exclusions: x}\n")
	r := w.start(t, "one")
	r.readyWhen(t, "")
	r.logs(t, "settings have no effect")
	for name, texts := range map[string][]string{
		"argocd-cm":            {"timeout.reconciliation (set applications.pollInterval", "url ("},
		"argocd-cmd-params-cm": {"application.namespaces (set applications.namespaces of the agent)", "redis.server (of Argo CD's own processes", "no such setting"},
	} {
		kubetest.WaitFor(t, w.Client.EventsV1().Events(w.control), metav1.ListOptions{}, patience, func(found []*eventsv1.Event) error {
			for _, event := range found {
				isMissing := func(text string) bool { return !strings.Contains(event.Note, text) }
				if event.Regarding.Name == name && event.Reason == "SettingsIgnored" && !slices.ContainsFunc(texts, isMissing) {
					return nil
				}
			}
			return fmt.Errorf("no Event about %s among %d", name, len(found))
		})
	}
}
