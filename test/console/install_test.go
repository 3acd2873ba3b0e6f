package console

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// shellTimeout bounds a command that a person would run: with --wait, Helm waits
// until the runtime is ready.
const shellTimeout = 4 * time.Minute

// install does what the person does who copies the command of the wizard: a shell runs
// it, with the key in the file that it reads it from, in a cluster that has no
// runtime. Everything else follows from what the command has made in the cluster.
func (w *world) install(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Command, Key string }](body)
	if err != nil {
		return nil, err
	}
	at := w.nextSite(t)
	if err := w.runShell(t, at, asked.Command, asked.Key); err != nil {
		return nil, err
	}
	if ends := at.node.Ends("validate"); !slices.Equal(ends, []int{0}) {
		return nil, fmt.Errorf("the check before the installation ended with %v, and not once with 0", ends)
	}
	namespace, err := at.release(t.Context())
	if err != nil {
		return nil, err
	}
	deployed, err := at.options(t.Context(), namespace)
	if err != nil {
		return nil, err
	}
	if deployed.Access.URL == w.mesh.url {
		w.mesh.lead(func() (string, error) { return at.endpoint(namespace, mode.RouterService, 80) })
	}
	return map[string]string{"name": deployed.Runtime.Name, "namespace": namespace}, nil
}

// nextSite is a cluster without a runtime: the one with the applications first, then
// others. A runtime has a cluster of its own.
func (w *world) nextSite(t *testing.T) *site {
	t.Helper()
	if w.installs > 0 {
		cluster := kubetest.Start(w.t, kubetest.WithoutNode())
		w.sites = append(w.sites, w.newSite(w.t, cluster, balancers()[w.installs%len(balancers())]))
	}
	w.installs++
	return w.sites[len(w.sites)-1]
}

// balancers are the addresses of the clusters' load balancers. That of the second is
// the one of localhost, which the spec of the Ingress gives as the host.
func balancers() []string { return []string{"127.0.0.2", "127.0.0.1", "127.0.0.3", "127.0.0.4"} }

// runShell runs a command with Helm and kubectl, as an administrator of the
// cluster.
func (w *world) runShell(t *testing.T, at *site, text, key string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), shellTimeout)
	defer cancel()
	dir := w.t.TempDir()
	// The person has put the key where the command reads it.
	for _, word := range strings.Fields(text) {
		if strings.HasSuffix(word, ".key") {
			writeFile(t, filepath.Join(dir, filepath.Base(strings.Trim(word, `'"`))), key)
		}
	}
	shell := exec.CommandContext(ctx, "sh", "-e", "-c", text)
	shell.Dir = dir
	shell.Env = []string{
		"PATH=" + w.tools + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "KUBECONFIG=" + at.cluster.Kubeconfig,
		"SSL_CERT_FILE=" + w.trusted, "HTTPS_PROXY=" + w.proxy, "NO_PROXY=localhost,127.0.0.1," + kubetest.HostAddress().String(),
	}
	out, err := shell.CombinedOutput()
	if err != nil {
		at.node.ShowLogs(t)
		return fmt.Errorf("the command of the console: %w\n%s\n%s", err, text, out)
	}
	t.Logf("%s", out)
	return nil
}

// release is the namespace of the one release that Helm has in the cluster, which has
// to be deployed.
func (s *site) release(ctx context.Context) (string, error) {
	found, err := s.cluster.Client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return "", err
	}
	if len(found.Items) != 1 || found.Items[0].Labels["status"] != "deployed" {
		return "", fmt.Errorf("the cluster has %d revisions of releases, and not one that is deployed", len(found.Items))
	}
	return found.Items[0].Namespace, nil
}

// deployedOptions are some of the options that the chart gives the agent.
type deployedOptions struct {
	Runtime struct{ Name string }
	Access  struct{ URL string }
}

// options are those that the agent in a namespace has.
func (s *site) options(ctx context.Context, namespace string) (into deployedOptions, err error) {
	found, err := s.cluster.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "slipway-agent", metav1.GetOptions{})
	if err != nil {
		return into, err
	}
	return into, yaml.Unmarshal([]byte(found.Data["agent.yaml"]), &into)
}

// makeNamespace makes one where there is none.
func (s *site) makeNamespace(ctx context.Context, name string) error {
	_, err := s.cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
