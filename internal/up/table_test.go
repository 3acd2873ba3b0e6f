package up

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

func sampleFacts() Facts {
	return Facts{
		PID: 42, Dir: "/home/me/.local/share/slipway", Kubeconfig: "/home/me/.local/share/slipway/devcluster/kubeconfig",
		Parts: []Row{
			{Part: "devcluster", Address: "https://127.0.0.1:6443", Detail: "Kubernetes v1.37.1, pid 43", PID: 43, Log: "/home/me/devcluster.log"},
			{Part: "demo", Detail: "deleted by you"},
		},
		Try: []Hint{{"look around", "kubectl get pods"}, {"stop", "kill 42"}},
	}
}

func TestTable(t *testing.T) {
	const want = `
slipway is up.

  PART        ADDRESS                 WHAT
  devcluster  https://127.0.0.1:6443  Kubernetes v1.37.1, pid 43
  demo        -                       deleted by you

  kubeconfig         /home/me/.local/share/slipway/devcluster/kubeconfig
  state              /home/me/.local/share/slipway
  log of devcluster  /home/me/devcluster.log

Try it:
    look around  kubectl get pods
    stop         kill 42

Ctrl-C stops everything and keeps the state.
`
	var got strings.Builder
	must.Do(t, sampleFacts().writeTable(&got))
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

func TestJSON(t *testing.T) {
	var got strings.Builder
	must.Do(t, sampleFacts().writeJSON(&got))
	if lines := strings.Count(got.String(), "\n"); lines != 1 || !strings.HasSuffix(got.String(), "\n") {
		t.Errorf("not one line: %q", got.String())
	}
	var back Facts
	must.Do(t, json.Unmarshal([]byte(got.String()), &back))
	if !reflect.DeepEqual(back, sampleFacts()) {
		t.Errorf("got %+v", back)
	}
}

// The printed commands are pasted into shells.
func TestShellQuote(t *testing.T) {
	for _, text := range []string{"/plain/path-1.2_x", "/with space", "it's", "$(reboot)", "a;b", "", "*", "~", "ümlaut", `back\slash`} {
		output := must.Get(exec.Command("sh", "-c", "printf %s "+shellQuote(text)).Output())(t)
		if string(output) != text {
			t.Errorf("%q became %q through %s", text, output, shellQuote(text))
		}
	}
	if got := shellQuote("/plain/path-1.2_x"); got != "/plain/path-1.2_x" {
		t.Errorf("a plain path was quoted: %s", got)
	}
}
