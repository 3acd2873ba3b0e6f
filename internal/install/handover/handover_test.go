package handover_test

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/must"
)

func request() handover.Request {
	return handover.Request{
		Release: "slipway-runtime", Namespace: "slipway", Chart: "oci://charts.slipway.dev/gitops-runtime", Version: "0.1.0", Wait: true,
		Files: []string{"my values.yaml"}, Sets: []string{"edge.replicas=3"}, TextSets: []string{"agent.podLabels.tier=1"},
		Values:  []handover.Value{{Key: "global.runtime.name", Text: "prod"}, {Key: "global.runtime.ingress.hosts[0]", Text: `a,b\c${d}"`}, {Key: "global.runtime.ingress.enabled", Text: "true", Plain: true}},
		KeyFile: "/home/ada/prod.key", KeySecret: "slipway-user-token", KeyName: "token", CAFile: "/home/ada/ca.pem", CASecret: "slipway-platform-ca",
	}
}

// TestHelm: R49 to R51: the command has every value once, quoted for a shell, and the
// key comes from its file.
func TestHelm(t *testing.T) {
	var text strings.Builder
	must.Do(t, handover.Helm(&text, request()))
	const want = `# 1. The API key goes into a Secret.
kubectl create namespace slipway --dry-run=client -o yaml | kubectl apply -f -
kubectl create secret generic slipway-user-token --namespace slipway --from-file=token=/dev/stdin < /home/ada/prod.key
kubectl create secret generic slipway-platform-ca --namespace slipway --from-file=ca-bundle.crt=/home/ada/ca.pem

# 2. Helm installs the runtime, which joins with the key.
helm upgrade --install slipway-runtime --create-namespace --namespace slipway \
  --values 'my values.yaml' \
  --set-string global.runtime.name=prod \
  --set-string 'global.runtime.ingress.hosts[0]=a\,b\\c${d}"' \
  --set global.runtime.ingress.enabled=true \
  --set edge.replicas=3 \
  --set-string agent.podLabels.tier=1 \
  oci://charts.slipway.dev/gitops-runtime --version 0.1.0 --wait
`
	if text.String() != want {
		t.Errorf("got\n%s\nwanted\n%s", text.String(), want)
	}
}

// TestTerraform: R76: a helm_release with the values, quoted for HCL.
func TestTerraform(t *testing.T) {
	var text strings.Builder
	given := request()
	given.CAFile = ""
	must.Do(t, handover.Terraform(&text, given))
	const want = `# The API key goes into a Secret before terraform apply, and is in no state of Terraform:
#   kubectl create namespace slipway --dry-run=client -o yaml | kubectl apply -f -
#   kubectl create secret generic slipway-user-token --namespace slipway --from-file=token=/dev/stdin < /home/ada/prod.key
resource "helm_release" "slipway_runtime" {
  name             = "slipway-runtime"
  repository       = "oci://charts.slipway.dev"
  chart            = "gitops-runtime"
  namespace        = "slipway"
  version          = "0.1.0"
  create_namespace = true
  values = [
    file("my values.yaml"),
  ]
  set = [
    { name = "global.runtime.name", value = "prod", type = "string" },
    { name = "global.runtime.ingress.hosts[0]", value = "a\\,b\\\\c$${d}\"", type = "string" },
    { name = "global.runtime.ingress.enabled", value = "true" },
    { name = "edge.replicas", value = "3" },
    { name = "agent.podLabels.tier", value = "1", type = "string" },
  ]
}
`
	if text.String() != want {
		t.Errorf("got\n%s\nwanted\n%s", text.String(), want)
	}
}

// TestMergeSets: what cannot be read is reported by its key, and never with its value.
func TestMergeSets(t *testing.T) {
	into := map[string]any{}
	must.Do(t, handover.MergeSets(into, []string{"a.b=2", "c={x,y}"}, []string{"a.d=2"}))
	group := into["a"].(map[string]any)
	if group["b"] != int64(2) || group["d"] != "2" || len(into["c"].([]any)) != 2 {
		t.Errorf("got %v", into)
	}
	for _, line := range []string{"token", "a[x]=canary", "list[99999999]=canary"} {
		if err := handover.MergeSets(map[string]any{}, []string{line}, nil); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// FuzzValue: a text is the same after Helm has read what is printed, and one word of a
// shell.
func FuzzValue(f *testing.F) {
	for _, text := range []string{"plain", "a,b", `back\slash`, "{list}", "null", "", "${x}", "it's", "a=b", "[0]", "#"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Skip()
		}
		into := map[string]any{}
		must.Do(t, handover.Merge(into, handover.Value{Key: "a.b", Text: text}))
		if got := into["a"].(map[string]any)["b"]; got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// TestShellWord: a real shell gives back the text.
func TestShellWord(t *testing.T) {
	for _, text := range []string{"plain", "it's", `a"b`, "$(id)", "a b", "", "`x`", "new\nline", "*"} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+handover.ShellWord(text)).Output()
		if err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}
