package up

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

const (
	agentName = "agent"
	// The ports of the agent, which are its own defaults.
	agentHealthPort = 8083
	agentHookPort   = 8084
	agentAdminPort  = 8091
	agentRouterPort = 8088
	// runtimeName is the agent's name at the platform.
	runtimeName = "slipway"
	// controlNamespace has the Applications, as with Argo CD.
	controlNamespace = "argocd"
	// The Secret and key where Argo CD keeps the secret of Gitea's webhooks.
	hookSecretName = "argocd-secret"
	hookSecretKey  = "webhook.gitea.secret"
)

// agentOptions is a complete configuration, so that no options of the user's
// own apply. There is no Lease: the lock of the state directory ensures a
// single agent, and a start after a kill need not wait for the Lease of the
// killed one to expire.
const agentOptions = `# The options of the agent. slipway up rewrites them at each start.
log:
  format: text
admin:
  address: %q
health:
  address: %q
webhooks:
  address: %q
  secret: %q
applications:
  controlNamespace: %q
  pollInterval: 30s
  pollJitter: 5s
sources:
  cacheDir: %q
leaderElection:
  enabled: false
platform:
  url: %q
  keyFile: %q
  stateDir: %q
runtime:
  name: %q
  cluster: devcluster
access:
  address: %q
traffic:
  edges: [%q]
  secretFile: %q
# The repository of slipway up is on this machine.
outbound:
  allow: [127.0.0.0/8, "::1"]
`

// agentStatus is the agent's part of a scene.
type agentStatus struct {
	child *child
}

// agentPorts lists the fixed ports of the agent.
func agentPorts() []fixedPort {
	return []fixedPort{
		{agentHealthPort, "the agent's health and metrics"}, {agentHookPort, "the agent's webhooks"},
		{agentAdminPort, "the agent's admin API"}, {agentRouterPort, "the agent's router"},
	}
}

// startAgent installs the kinds of Applications, and those that they may have, and
// starts this program again as the agent of the cluster. It listens on loopback only.
func startAgent(ctx context.Context, s *scene) (*child, error) {
	if err := installKinds(ctx, s.cluster); err != nil {
		return nil, err
	}
	if err := installGatewayKinds(ctx, s.cluster); err != nil {
		return nil, err
	}
	key, err := provideHookSecret(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	// Without git there is no announcer, and nothing to sign.
	if s.git.pushes != nil {
		s.git.pushes.sign(key)
	}
	dir := s.state.path(agentName)
	if err := s.state.root.MkdirAll(agentName, 0o700); err != nil {
		return nil, err
	}
	if err := s.provideTrafficSecret(); err != nil {
		return nil, err
	}
	options := fmt.Sprintf(agentOptions, s.local(agentAdminPort), s.local(agentHealthPort), s.local(agentHookPort),
		hookSecretName, controlNamespace, filepath.Join(dir, "sources"),
		s.platformURL(), s.platformFile(registerKeyFile), filepath.Join(dir, "runtime"), runtimeName, s.local(agentRouterPort),
		s.local(edgeTrafficPort), s.trafficSecret())
	s.agent.child, err = s.startRole(agentName, options, s.kubeconfig)
	return s.agent.child, err
}

// startRole starts this program again as the part of that name, with a complete
// configuration.
func (s *scene) startRole(name, options, kubeconfig string) (*child, error) {
	if err := s.state.writeSynced(filepath.Join(name, name+".yaml"), []byte(options)); err != nil {
		return nil, fmt.Errorf("write the options of the %s: %w", name, err)
	}
	dir := s.state.path(name)
	// The child holds the lock too, so that the directory stays locked while a
	// part of a killed slipway up still runs.
	return startChild(program{
		path: s.options.Executable,
		args: []string{name, "--configFile=" + filepath.Join(dir, name+".yaml")},
		env:  roleEnvironment(os.Environ(), kubeconfig),
		log:  filepath.Join(dir, name+".log"),
		logs: true,
		tied: true,
		hold: s.state.lock,
	})
}

// installKinds installs the CustomResourceDefinitions of Argo CD and of promotions, and
// waits until they are established.
func installKinds(ctx context.Context, cluster *kube.Cluster) error {
	definitions, err := v1alpha1.CRDs()
	if err != nil {
		return err
	}
	promotions, err := v1beta1.CRDs()
	if err != nil {
		return err
	}
	// The namespace is applied with the kinds, because the Secret of the
	// webhooks goes into it next.
	manifests := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + controlNamespace + "}\n" + string(definitions) + string(promotions)
	_, err = cluster.Define(ctx, kube.Target{Manager: upOwner}, manifests)
	return err
}

// provideHookSecret returns the secret that signs webhooks. It is created once
// and kept in the cluster, where the agent reads it.
func provideHookSecret(ctx context.Context, cluster *kube.Cluster) (secret.Text, error) {
	found, err := cluster.Client.CoreV1().Secrets(controlNamespace).Get(ctx, hookSecretName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return secret.Text{}, fmt.Errorf("read the Secret %s/%s: %w", controlNamespace, hookSecretName, err)
	}
	if err == nil {
		if text := strings.TrimSpace(string(found.Data[hookSecretKey])); text != "" {
			return secret.New(text), nil
		}
	}
	// A Secret without the key may have other keys. Apply adds this one and
	// leaves them alone.
	text := rand.Text()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata: {%s: %s}\n",
		hookSecretName, hookSecretKey, base64.StdEncoding.EncodeToString([]byte(text)))
	if _, err := cluster.Apply(ctx, kube.Target{Namespace: controlNamespace, Manager: upOwner}, manifest); err != nil {
		return secret.Text{}, err
	}
	return secret.New(text), nil
}

// agentReady waits until the agent is ready and the platform reaches it.
func agentReady(ctx context.Context, s *scene, report func(string)) (string, error) {
	report("waiting for the agent to start")
	if err := s.awaitHealth(ctx, agentHealthPort, report); err != nil {
		return "", err
	}
	// Health alone is not enough: commands reach the runtime through the
	// platform.
	report("waiting for the platform to reach the runtime through its tunnel")
	return "ready", s.awaitRuntime(ctx, report)
}

// awaitHealth waits for the health server of a part, and passes the reasons why
// it is not ready to say.
func (s *scene) awaitHealth(ctx context.Context, port int, report func(string)) error {
	return poll(ctx, func() bool {
		status, text := get(ctx, s.local(port), "")
		if missing := notReady(text); missing != "" {
			report(missing)
		}
		return status == 200
	})
}

// showAgent returns the agent's row and hints.
func showAgent(s *scene) (Row, []Hint) {
	return Row{
		Part:    agentName,
		Address: "http://" + s.local(agentHookPort) + "/webhooks",
		Detail:  fmt.Sprintf("the runtime %s, with Applications in the namespace %s, pid %d", runtimeName, controlNamespace, s.agent.child.pid()),
		PID:     s.agent.child.pid(),
		Log:     s.agent.child.log,
	}, []Hint{{"without the platform", s.slipway("app list --direct -n " + controlNamespace)}}
}

// slipway returns a command of this program for the cluster. It works in any
// directory and does not use the user's own kubeconfig.
func (s *scene) slipway(arguments string) string {
	return "KUBECONFIG=" + shellQuote(s.kubeconfig) + " " + shellQuote(s.options.Executable) + " " + arguments
}
