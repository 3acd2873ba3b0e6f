package documents

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

const (
	// signIn are the lines that slipway login asks for.
	signIn = adminEmail + "\n" + password + "\n"
	yes    = "y\n"

	installed = "The runtime prod is installed."
	// sound is what a check of the host prints.
	sound = "P19 url-get ok"
)

// allSteps is the table: what happens with each block of each page.
func allSteps() map[string][]step {
	steps := map[string][]step{
		"README.md": {{begins: "make release", elsewhere: "it builds a release, which takes minutes"}}, "values.md": nil,
		"tunnel.md": tunnelSteps(), "ingress.md": ingressSteps(), "mesh.md": meshSteps(),
		"certificates.md": certificateSteps(), "images.md": imageSteps(), "preflight.md": preflightSteps(),
		"upgrade.md": upgradeSteps(), "controllers/nginx-community.md": communitySteps(), "controllers/nginx-enterprise.md": enterpriseSteps(),
		"footprint.md": {{begins: "sudo make e2e", elsewhere: "it starts a real node, takes minutes, and is a test of its own"}},
		"crds.md": {
			{begins: "slipway crds plan", before: ownerless, says: []string{"applications.argoproj.io"}},
			{begins: "slipway crds adopt", answers: yes, after: helmOwns("Helm")},
			{begins: "slipway crds upgrade --only gateway", elsewhere: "the definitions are of the whole cluster, where other pages have some of their own; TestUpgradeGatewayAPI creates them"},
			{begins: "slipway crds upgrade --only rollouts", elsewhere: "the definitions are of the whole cluster, where other pages have some of their own; TestUpgradeRollouts creates them"},
			{begins: "slipway crds release", answers: yes, after: helmOwns("")},
		},
		"argo-cd.md": {
			{begins: "slipway migrate argocd", before: hasArgo, says: []string{"argocd/shop"}},
			{begins: "slipway migrate argocd --copy-settings", answers: yes},
			{begins: "slipway migrate argocd --project team-a --take-over", replaced: []string{"team-a", "default"}, answers: yes + yes, says: []string{"1 Application taken over", "1 Application returned"}},
			{begins: "slipway app migrate", before: argoCompares, answers: yes, says: []string{"argocd/shop", "untouched"}},
			{begins: "slipway app migrate argocd/shop --back", answers: yes},
		},
		"restore.md": {{begins: "slipway login", before: lostRuntime, answers: signIn + yes, says: []string{"The runtime prod is restored."}}},
		"terraform.md": {
			{begins: "slipway runtime install prod --create-key --print helm", says: []string{"helm upgrade --install slipway-runtime"}},
			{begins: `resource "helm_release"`, shown: true, account: true},
			{begins: "cd deploy/terraform/managed-cluster", elsewhere: "terraform is a program of others; the objects are those of slipway cluster add"},
		},
		"uninstall.md": {
			{begins: "slipway runtime uninstall prod --dry-run", before: hasRuntime, answers: yes, says: []string{"The runtime prod is uninstalled."}},
			{begins: "kubectl delete namespace slipway"},
			{begins: "slipway runtime delete prod", before: knownRuntime, answers: yes},
		},
	}
	for page, more := range controllerSteps() {
		steps[page] = more
	}
	return steps
}

func tunnelSteps() []step {
	return []step{
		{begins: "slipway login", answers: signIn},
		{begins: "slipway preflight --runtime prod", says: []string{"P27 egress ok", "Nothing was changed"}},
		{begins: "slipway runtime install prod --create-key", answers: yes, says: []string{installed}},
		{begins: "helm list", says: []string{"slipway-runtime slipway 1 deployed"}},
		{begins: "slipway runtime get prod", before: hasToken, says: []string{"Online: yes"}},
		{begins: "slipway runtime install prod --create-key -f values.yaml --dry-run", fresh: true, before: hasValues, answers: yes, says: []string{installed}, after: hasReplicas("3")},
		{begins: "slipway api-key create", fresh: true, answers: yes, says: []string{installed}},
		{begins: "kubectl create namespace slipway", fresh: true, answers: yes, says: []string{installed}},
		{begins: "slipway runtime install prod --key-file prod.key --print helm", fresh: true, says: []string{"helm upgrade --install slipway-runtime", `resource "helm_release"`}},
	}
}

// hasValues writes a file with values of a user.
func hasValues(t *testing.T, _ *world, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "values.yaml"), "edge:\n  replicas: 1\n")
}

func hasReplicas(want string) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, _ string) {
		t.Helper()
		if got := w.must(t, "kubectl -n slipway get deployment slipway-edge -o jsonpath={.spec.replicas}"); got != want {
			t.Errorf("the edge has %s replicas, and not %s", got, want)
		}
	}
}

// helmOwns looks at who manages the definitions of Argo CD.
func helmOwns(want string) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, _ string) {
		t.Helper()
		if got := w.must(t, `kubectl get crd applications.argoproj.io -o jsonpath='{.metadata.labels.app\.kubernetes\.io/managed-by}'`); got != want {
			t.Errorf("it is managed by %q, and not by %q", got, want)
		}
	}
}

func ingressSteps() []step {
	return []step{
		{begins: "slipway login", before: community().has, answers: signIn, says: []string{"P14 ingress-class ok"}},
		{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
		{begins: "slipway preflight", says: []string{sound}},
		{begins: "kubectl create namespace slipway", fresh: true, before: hasCertificate, answers: yes, says: []string{installed}},
		{begins: "slipway preflight --mode http-route", fresh: true, before: hasGateway, answers: yes, says: []string{installed, sound}},
	}
}

func meshSteps() []step {
	return []step{
		{begins: "slipway login", before: hasMesh, answers: signIn},
		{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
		{begins: "slipway preflight", says: []string{sound}},
		{begins: "slipway runtime install prod", fresh: true, answers: yes, fails: true, says: []string{installed, "P20"}},
		{begins: "slipway runtime mesh generate", says: []string{sound}},
	}
}

func preflightSteps() []step {
	return []step{
		{begins: "slipway preflight", before: together(community().has, hasMesh, hasGateway)},
		{begins: "slipway preflight --runtime prod --stage after", before: func(t *testing.T, w *world, _ string) {
			t.Helper()
			w.must(t, "slipway runtime install prod --create-key --mode ingress --host prod.example.com --ingress-class nginx --yes")
		}, says: []string{sound}},
	}
}

// certificateSteps: Pods do not know the authority but by the values.
func certificateSteps() []step {
	return []step{
		{begins: "slipway login", answers: signIn, before: func(t *testing.T, w *world, dir string) {
			t.Helper()
			w.node.untrusting.Store(true)
			hasToken(t, w, dir)
			writeFile(t, filepath.Join(dir, "ca.pem"), string(w.authority.Cert))
			writeFile(t, filepath.Join(dir, "git-ca.pem"), string(w.authority.Cert))
		}},
		{begins: "global:", file: "platform.yaml"},
		{begins: "global:", file: "inline.yaml", pem: true},
		{begins: "agent:", file: "git.yaml", pem: true},
		{begins: "runtimes:", file: "platform-chart.yaml", after: platformTakes("platform-chart.yaml")},
		{begins: "kubectl -n slipway create secret generic git-token"},
		{begins: "global:", file: "credentials.yaml"},
		{begins: "slipway runtime install prod", answers: yes, says: []string{installed}, after: func(t *testing.T, w *world, dir string) {
			t.Helper() // the other way to say it
			w.takeAway(t)
			w.node.untrusting.Store(true)
			w.must(t, "slipway runtime install prod --create-key --yes -f "+filepath.Join(dir, "inline.yaml"))
		}},
		{begins: "helm get values"},
		{begins: "slipway preflight --only P26", says: []string{"P26 git-tls ok"}},
	}
}

// platformTakes renders the chart of the platform with a file, as the API server would
// take it.
func platformTakes(file string) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, dir string) {
		t.Helper()
		text := must.Get(os.ReadFile(filepath.Join(dir, file)))(t)
		given := map[string]any{}
		must.Do(t, yaml.Unmarshal(text, &given))
		given["publicURL"] = platformURL
		loaded := must.Get(chart.Load("../../charts/platform"))(t)
		made := must.Get(loaded.Render(t.Context(), given, chart.Release{Name: "slipway-platform", Namespace: "default"}))(t)
		for _, object := range made.Objects {
			text := must.Get(yaml.Marshal(object.Object))(t)
			if object.GetKind() == "ConfigMap" && !strings.Contains(string(text), "caFile: /etc/slipway/runtimes/ca-bundle.crt") {
				t.Errorf("the option is not set:\n%s", text)
			}
			writeFile(t, filepath.Join(dir, "object.yaml"), string(text))
			w.must(t, "kubectl apply --server-side --dry-run=server -f "+filepath.Join(dir, "object.yaml"))
		}
	}
}

// imageSteps: the image is one for this test, small, and in the layout of the real one.
func imageSteps() []step {
	return []step{
		{begins: "slipway images list", before: hasImages, says: []string{"slipway.dev/slipway:"}},
		{begins: "helm upgrade --install", says: []string{"STATUS: deployed"}, after: func(t *testing.T, w *world, _ string) {
			t.Helper()
			if got := w.must(t, "kubectl -n slipway get deployment slipway-agent -o jsonpath={.spec.template.spec.containers[0].image}"); !strings.HasPrefix(got, "registry.example.com/mirror/slipway:") {
				t.Errorf("the image is %s", got)
			}
		}},
		{begins: "slipway images mirror --to registry.example.com/mirror --from"},
		{begins: "global:", shown: true, file: "images.yaml"},
	}
}

// hasImages puts an image where the chart looks for it, and writes values for an
// installation with Helm.
func hasImages(t *testing.T, w *world, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "values.yaml"), "global:\n  platform:\n    url: "+platformURL+"\n    accountId: "+w.account(t)+"\n    userToken: {secretKeyRef: {name: slipway-user-token, key: token}}\n  runtime: {name: prod}\n")
	tool := filepath.Join(dir, "ociimage")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "slipway.dev/slipway/internal/tools/ociimage")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	image := strings.Fields(w.must(t, "slipway images list -o name"))[0]
	w.must(t, "cd "+dir+" && ./ociimage --out slipway.tar --binary ./ociimage --authorities= --name "+image+" --version 0.1.0 --revision none && slipway images mirror --to slipway.dev --from slipway.tar")
	w.must(t, "cd "+dir+" && slipway api-key create prod-runtime --scope runtime-register --lifetime 1d > prod.key && kubectl create namespace slipway && kubectl -n slipway create secret generic slipway-user-token --from-file=token=prod.key")
}

// account is the ID of the account.
func (w *world) account(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(w.must(t, `slipway account get -o json | tr -d ' \n' | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/'`))
}

func upgradeSteps() []step {
	return []step{
		{begins: "slipway runtime upgrade prod --dry-run", before: hasRuntime, answers: yes, says: []string{"There is nothing to change."}},
		{begins: "slipway runtime upgrade prod --set edge.replicas=3", answers: yes, says: []string{"The runtime prod is upgraded."}, after: hasReplicas("3")},
		{begins: "slipway runtime upgrade prod --chart oci://", before: func(t *testing.T, w *world, dir string) {
			t.Helper()
			w.push(t, "charts.example.com/gitops-runtime", ownChart(t, "0.2.0"))
			must.Do(t, os.CopyFS(filepath.Join(dir, "gitops-runtime"), os.DirFS(ownChart(t, "0.3.0"))))
		}, answers: yes + yes, says: []string{"The runtime prod is upgraded."}, after: hasChart("0.3.0")},
		{begins: "helm history", says: []string{"Rollback was a success!"}, after: hasChart("0.1.0")},
	}
}

// hasChart looks at the version of the chart that is installed.
func hasChart(want string) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, _ string) {
		t.Helper()
		if got := w.must(t, `kubectl -n slipway get deployment slipway-agent -o jsonpath='{.metadata.labels.helm\.sh/chart}'`); got != "gitops-runtime-"+want {
			t.Errorf("the chart is %s, and not %s", got, want)
		}
	}
}

// ownChart is ours with another version, in a folder.
func ownChart(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gitops-runtime")
	must.Do(t, os.CopyFS(dir, os.DirFS("../../charts/gitops-runtime")))
	file := filepath.Join(dir, "Chart.yaml")
	text := must.Get(os.ReadFile(file))(t)
	writeFile(t, file, strings.Replace(string(text), "\nversion: 0.1.0\n", "\nversion: "+version+"\n", 1))
	return dir
}

// push puts a chart into the registry.
func (w *world) push(t *testing.T, to, dir string) {
	t.Helper()
	archive, version := packed(t, dir)
	client := must.Get(registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "none.json"))))(t)
	_, repository, _ := strings.Cut(to, "/")
	must.Get(client.Push(archive, w.registry+"/"+repository+":"+version))(t)
}

// packed is a chart as Helm packs it, with its version; that of the program when there
// is no folder.
func packed(t *testing.T, dir string) (archive []byte, version string) {
	t.Helper()
	var err error
	if dir == "" {
		archive, err = charts.Archive(charts.Runtime)
	} else {
		archive, err = exec.CommandContext(context.Background(), "tar", "-C", filepath.Dir(dir), "-cz", filepath.Base(dir)).Output()
	}
	must.Do(t, err)
	return archive, chartVersion(t, archive)
}

// chartVersion is the version in a packed chart.
func chartVersion(t *testing.T, archive []byte) string {
	t.Helper()
	loaded := must.Get(loader.LoadArchive(bytes.NewReader(archive)))(t)
	return loaded.Metadata.Version
}

// communitySteps: each provider's command is run, and is the one that P15 prints.
func communitySteps() []step {
	steps := []step{
		{begins: "kubectl get svc", before: community().has, says: []string{"P14 ingress-class ok"}},
		{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
		{begins: "slipway preflight", says: []string{sound}},
	}
	for _, provider := range preflight.Providers() {
		for _, command := range provider.Commands {
			one := step{begins: command}
			switch {
			case strings.Contains(command, "gcloud"):
				one.begins, one.elsewhere = "kubectl create clusterrolebinding", "gcloud is Google's"
			case !strings.HasPrefix(command, "kubectl"):
				one.elsewhere = "it is a command of " + provider.Name
			}
			steps = append(steps, one)
		}
	}
	return append(steps, step{begins: "kubectl get svc", says: []string{balancerAddress().String()}})
}

func enterpriseSteps() []step {
	return []step{
		{begins: "kubectl -n nginx-ingress patch deployment", before: enterprise().has, says: []string{"successfully rolled out"}},
		{begins: "kubectl -n nginx-ingress patch nginxingress", before: hasOperator, after: operatorGoes},
		{begins: "kubectl create namespace slipway", before: hasCertificate, says: []string{"P18 status-report ok"}},
		{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
		{begins: "slipway preflight", says: []string{"P16 tls-cert ok", sound}},
	}
}

func controllerSteps() map[string][]step {
	edge := func(t *testing.T, w *world, dir string) {
		t.Helper()
		hasCertificate(t, w, dir)
		w.balancer.toEdge.Store(true)
	}
	return map[string][]step{
		"controllers/ambassador.md": {
			{begins: "kubectl get svc -A", before: ambassador().has, says: []string{balancerAddress().String(), "P14 ingress-class ok"}},
			{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
			{begins: "slipway api-key create", fresh: true, says: []string{"STATUS: deployed"}},
			{begins: "slipway preflight", says: []string{sound}},
		},
		"controllers/aws-alb.md": {
			{begins: "apiVersion: networking.k8s.io/v1", before: awsController().has, file: "alb.yaml"},
			{begins: "kubectl apply -f alb.yaml", says: []string{"P14 ingress-class ok"}},
			{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
			{begins: "kubectl -n slipway get ingress", says: []string{balancerName}},
			{begins: "slipway preflight", says: []string{sound}},
			{begins: "slipway integration git add", before: hasToken},
		},
		"controllers/istio.md": {
			{begins: "kubectl get svc -A", before: hasMesh, says: []string{balancerAddress().String()}},
			{begins: "slipway runtime install prod", answers: yes, fails: true, says: []string{installed}},
			{begins: "slipway runtime mesh apply", says: []string{sound}},
		},
		"controllers/slipway.md": {
			{begins: "slipway preflight", before: edge},
			{begins: "kubectl create namespace slipway", answers: yes, says: []string{installed}},
			{begins: "kubectl -n slipway get ingress", says: []string{balancerAddress().String(), sound}},
		},
		"controllers/traefik.md": {
			{begins: "kubectl get svc -A", before: traefik().has, answers: yes, says: []string{"1 change was made"}},
			{begins: "slipway runtime install prod", answers: yes, says: []string{installed}},
			{begins: "slipway preflight", says: []string{sound}},
		},
	}
}
