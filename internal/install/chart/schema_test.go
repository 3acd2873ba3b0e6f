package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/must"
)

// TestRefused: R30: what is wrong is refused by schema or templates, in words that
// name the key.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		folder string
		set    []string
		want   string
	}{
		{runtimeChart, joined("global.runtime.name=Prod"), "/global/runtime/name"},
		{runtimeChart, joined("global.runtime.name=" + strings.Repeat("a", 39)), "/global/runtime/name"},
		{runtimeChart, joined("global.runtime.name="), "/global/runtime/name"},
		{runtimeChart, joined("global.codefresh.accountId=short"), "accountId"},
		{runtimeChart, joined("global.runtime.ingress.enabled=yes"), "/global/runtime/ingress/enabled"},
		{runtimeChart, joined("global.runtime.ingres.enabled=true"), "ingres"},
		{runtimeChart, joined("agent.replicas=0"), "/agent/replicas"},
		{runtimeChart, joined("edge.service.type=External"), "/edge/service/type"},
		{runtimeChart, joined("image.digest=latest"), "/image/digest"},
		{runtimeChart, joined("wrong=true"), "wrong"},
		{runtimeChart, []string{"global.runtime.name=prod"}, "global.platform.url is missing"},
		{runtimeChart, joined("global.platform.userToken.token=other"), "two spellings of one value"},
		{runtimeChart, joined("global.platform.userToken.secretKeyRef.name=mine"), "keep one of them"},
		{runtimeChart, []string{"global.platform.url=https://slipway.example.com", "global.platform.userToken.secretKeyRef.name=slipway-token"}, "choose another name"},
		{runtimeChart, joined("global.runtime.ingress.enabled=true"), "global.runtime.ingress.hosts"},
		{runtimeChart, joined("global.runtime.ingress.enabled=true", "global.runtime.ingress.hosts[0]=a.example.com"), "global.runtime.ingress.className"},
		{runtimeChart, joined("global.runtime.httpRoute.enabled=true", "global.runtime.httpRoute.hostnames[0]=a.example.com"), "global.runtime.httpRoute.parentRefs"},
		{runtimeChart, joined("tunnel-client.enabled=false"), "tunnel-client.enabled is false"},
		{runtimeChart, joined("global.runtime.ingressUrl=https://a.example.com"), "the tunnel is not off"},
		{runtimeChart, joined("tunnel-client.enabled=true", "global.runtime.ingress.enabled=true"), "reached one way"},
		{runtimeChart, joined("global.runtime.singleNamespace=true", "agent.namespaces[0]=*"), "name the namespaces"},
		{platformChart, []string{}, "publicURL is missing"},
		{platformChart, []string{"publicURL=http://slipway.example.com"}, "/publicURL"},
		{platformChart, []string{"publicURL=https://slipway.example.com", "replicas=2"}, "SQLite is for one"},
		{platformChart, []string{"publicURL=https://slipway.example.com", "database.urlSecretKeyRef.name=db"}, "keySecretRef.name"},
		{platformChart, []string{"publicURL=https://slipway.example.com", "service.type=LoadBalancer"}, "tls.secretName"},
	} {
		loaded, err := chart.Load(tt.folder)
		must.Do(t, err)
		_, err = loaded.Render(t.Context(), flagSet{set: tt.set}.values(t), release())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.set, err, tt.want)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%v: the error has the token: %v", tt.set, err)
		}
	}
}

// TestOldKubernetes: R10: a cluster that is too old is refused.
func TestOldKubernetes(t *testing.T) {
	loaded, err := chart.Load(runtimeChart)
	must.Do(t, err)
	old := release()
	old.Kubernetes = "v1.22.17"
	if _, err := loaded.Render(t.Context(), runtimeSets()[0].values(t), old); err == nil || !strings.Contains(err.Error(), "upgrade the cluster") {
		t.Errorf("1.22 gives %v", err)
	}
	old.Kubernetes = "v1.23.0"
	if _, err := loaded.Render(t.Context(), runtimeSets()[0].values(t), old); err != nil {
		t.Errorf("1.23 gives %v", err)
	}
}

// TestAliases: every documented spelling means the same as ours.
func TestAliases(t *testing.T) {
	given := map[string]string{
		"url": "https://slipway.example.com", "accountId": account, "userToken.token": "key-1", "userToken.secretKeyRef.name": "mine", "userToken.secretKeyRef.key": "key",
		"tls.caCerts.secretKeyRef.name": "ca", "tls.caCerts.secretKeyRef.key": "ca.pem", "tls.caCerts.secret.create": "true", "tls.caCerts.secret.key": "ca.pem",
		"tls.caCerts.secret.annotations": "", "tls.caCerts.secret.content": "PEM",
	}
	// beside is what a value needs to be seen.
	beside := map[string][]string{
		"userToken.secretKeyRef.key": {"userToken.secretKeyRef.name=mine"}, "tls.caCerts.secretKeyRef.key": {"tls.caCerts.secretKeyRef.name=ca"},
		"tls.caCerts.secret.create": {"tls.caCerts.secret.content=PEM"}, "tls.caCerts.secret.content": {"tls.caCerts.secret.create=true"},
		"tls.caCerts.secret.key":         {"tls.caCerts.secret.create=true", "tls.caCerts.secret.content=PEM"},
		"tls.caCerts.secret.annotations": {"tls.caCerts.secret.create=true", "tls.caCerts.secret.content=PEM"},
	}
	for _, value := range values.Runtime().Values {
		if value.Alias == "" {
			continue
		}
		rest := strings.TrimPrefix(value.Key, "global.platform.")
		text, known := given[rest]
		if !known {
			t.Errorf("%s is not tested", value.Key)
			continue
		}
		set := func(prefix string) []string {
			flags := []string{prefix + rest + "=" + text}
			if value.Kind == values.TextMap {
				flags = []string{prefix + rest + ".a=b"}
			}
			for _, more := range beside[rest] {
				flags = append(flags, "global.platform."+more)
			}
			if rest != "url" {
				flags = append(flags, "global.platform.url=https://slipway.example.com")
			}
			return append(flags, "installer.skipValidation=true")
		}
		ours := shown(t, render(t, runtimeChart, flagSet{name: value.Key, set: set("global.platform.")}))
		theirs := shown(t, render(t, runtimeChart, flagSet{name: value.Alias, set: set("global.codefresh.")}))
		if ours != theirs {
			t.Errorf("%s and %s differ", value.Key, value.Alias)
		}
		without := set("global.platform.")[1:]
		if rest == "url" {
			continue
		}
		loaded, _ := chart.Load(runtimeChart)
		if made, err := loaded.Render(t.Context(), flagSet{set: without}.values(t), release()); err == nil && shown(t, made) == ours {
			t.Errorf("%s changes nothing: the test looks at nothing", value.Key)
		}
	}
}

func shown(t *testing.T, made chart.Rendered) string {
	t.Helper()
	var all []string
	for _, object := range made.Objects {
		if object.GetName() == "slipway-values" {
			continue // the values as they were written
		}
		text, err := object.MarshalJSON()
		must.Do(t, err)
		all = append(all, string(text))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TestUmbrella: R71: as a dependency of the chart in the Shared Configuration
// Repository, it gives the same objects.
func TestUmbrella(t *testing.T) {
	folder := t.TempDir()
	must.Do(t, os.CopyFS(filepath.Join(folder, "charts", "gitops-runtime"), os.DirFS(runtimeChart)))
	about := "apiVersion: v2\nname: prod\nversion: 0.1.0\ndependencies: [{name: gitops-runtime, version: 0.1.0, repository: 'oci://charts.slipway.dev'}]\n"
	must.Do(t, os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte(about), 0o600))
	umbrella, err := chart.Load(folder)
	must.Do(t, err)
	for _, set := range runtimeSets()[:5] { // one of each access mode
		made, err := umbrella.Render(t.Context(), map[string]any{"gitops-runtime": set.values(t)}, release())
		if err != nil {
			t.Errorf("%s: %v", set.name, err)
		} else if direct := render(t, runtimeChart, set); shown(t, made) != shown(t, direct) {
			t.Errorf("%s: the objects differ", set.name)
		}
	}
}
