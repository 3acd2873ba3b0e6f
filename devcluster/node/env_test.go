package node

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/devcluster/must"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "a", "EMPTY": "", "NESTED": "$(A)", "with space": "s"}
	for in, want := range map[string]string{
		"":                "",
		"plain":           "plain",
		"$(A)":            "a",
		"x$(A)y$(A)z":     "xayaz",
		"$(EMPTY)":        "",
		"$(NESTED)":       "$(A)", // a value is not expanded again
		"$(UNKNOWN)":      "$(UNKNOWN)",
		"$$(A)":           "$(A)",
		"$$$(A)":          "$a",
		"$$$$(A)":         "$$(A)",
		"$A":              "$A",
		"$":               "$",
		"$$":              "$",
		"a$":              "a$",
		"$(A":             "$(A",
		"$($(A)":          "$($(A)",
		"$()":             "$()",
		"$(with space)":   "s",
		"${A}":            "${A}",
		"$(A)$(B)$$(C)$D": "a$(B)$(C)$D",
		"€$(A)€":          "€a€",
	} {
		if got := expand(in, values); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzExpand holds the promises that need no second implementation: text without a dollar stays, no references means
// only escapes shrink, and a known name that is asked for alone gives its value.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "$(A)", "$(A", "$$(A)", "$()$)$(", "a$(A)b$(B)"} {
		f.Add(seed, "value")
	}
	f.Fuzz(func(t *testing.T, in, value string) {
		unknown := expand(in, nil)
		if want := strings.ReplaceAll(in, "$$", "$"); !strings.Contains(in, "(") && unknown != want {
			t.Errorf("expand(%q) = %q, want %q", in, unknown, want)
		}
		if !strings.Contains(in, "$") && unknown != in {
			t.Errorf("expand(%q) = %q, want it unchanged", in, unknown)
		}
		escaped := strings.ReplaceAll(in, "$", "$$")
		if got := expand(escaped+"$(A)", map[string]string{"A": value}); got != in+value {
			t.Errorf("expand(%q) = %q, want %q", escaped+"$(A)", got, in+value)
		}
	})
}

func fieldRef(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func resourceRef(name, divisor string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: name, Divisor: resource.MustParse(divisor)}}
}

func configKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
}

func secretKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
}

func fromConfig(name, prefix string, optional *bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional}}
}

func fromSecret(name string) corev1.EnvFromSource {
	return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

func TestEnvironment(t *testing.T) {
	yes := true
	env := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	ref := func(name string, from *corev1.EnvVarSource) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: from}
	}
	for _, tt := range []struct {
		name string
		from []corev1.EnvFromSource
		env  []corev1.EnvVar
		want []string // besides PATH, HOSTNAME, IMAGE and the listen variable
		err  string
	}{
		{name: "none"},
		{name: "plain", env: []corev1.EnvVar{env("A", "1"), env("B", "$(A)2")}, want: []string{"A=1", "B=12"}},
		{name: "later is not known yet", env: []corev1.EnvVar{env("A", "$(B)"), env("B", "2")}, want: []string{"A=$(B)", "B=2"}},
		{name: "twice", env: []corev1.EnvVar{env("A", "1"), env("A", "$(A)2")}, want: []string{"A=12"}},
		{name: "over the image", env: []corev1.EnvVar{env("IMAGE", "mine")}, want: []string{"IMAGE=mine"}},
		{name: "not over listen", env: []corev1.EnvVar{env(listenVariable, "0.0.0.0:1")}},
		{name: "fields", env: []corev1.EnvVar{
			ref("NAME", fieldRef("metadata.name")), ref("NAMESPACE", fieldRef("metadata.namespace")), ref("UID", fieldRef("metadata.uid")),
			ref("LABEL", fieldRef("metadata.labels['app/x']")), ref("NO_LABEL", fieldRef("metadata.labels['no']")),
			ref("NOTE", fieldRef("metadata.annotations['note']")), ref("NODE", fieldRef("spec.nodeName")),
			ref("ACCOUNT", fieldRef("spec.serviceAccountName")), ref("POD_IP", fieldRef("status.podIP")), ref("HOST_IP", fieldRef("status.hostIP"))},
			want: []string{"NAME=web-0", "NAMESPACE=shop", "UID=u1", "LABEL=web", "NO_LABEL=", "NOTE=hello", "NODE=n1", "ACCOUNT=robot",
				"POD_IP=10.0.0.2", "HOST_IP=10.0.0.1"}},
		{name: "unknown field", env: []corev1.EnvVar{ref("A", fieldRef("spec.hostname"))}, err: `unknown field "spec.hostname"`},
		{name: "resources", env: []corev1.EnvVar{
			ref("CPU", resourceRef("limits.cpu", "0")), ref("MILLI", resourceRef("limits.cpu", "1m")), ref("MEM", resourceRef("limits.memory", "1Mi")),
			ref("REQ", resourceRef("requests.memory", "0"))},
			want: []string{"CPU=2", "MILLI=1500", "MEM=4096", "REQ=0"}},
		{name: "config key", env: []corev1.EnvVar{ref("A", configKey("conf", "a", nil)), env("B", "<$(A)>")}, want: []string{"A=from-conf", "B=<from-conf>"}},
		{name: "secret key", env: []corev1.EnvVar{ref("P", secretKey("cred", "password", nil))}, want: []string{"P=hunter2"}},
		{name: "missing config", env: []corev1.EnvVar{ref("A", configKey("none", "a", nil))}, err: `environment variable A: configmaps "none" not found`},
		{name: "missing key", env: []corev1.EnvVar{ref("A", configKey("conf", "z", nil))}, err: `ConfigMap "conf" has no key "z"`},
		{name: "optional", env: []corev1.EnvVar{ref("A", configKey("none", "a", &yes)), ref("B", configKey("conf", "z", &yes)), ref("C", secretKey("none", "c", &yes)), env("D", "4")}, want: []string{"D=4"}},
		{name: "all of config", from: []corev1.EnvFromSource{fromConfig("conf", "X_", nil), fromSecret("cred"), fromConfig("none", "", &yes)},
			env: []corev1.EnvVar{env("X_a", "$(X_a)!")}, want: []string{"X_a=from-conf!", "password=hunter2"}},
		{name: "missing from", from: []corev1.EnvFromSource{fromConfig("none", "", nil)}, err: `configmaps "none" not found`},
		{name: "loader", env: []corev1.EnvVar{env("LD_PRELOAD", "/lib/mine.so")}, err: "LD_PRELOAD changes how this machine loads programs"},
		{name: "loader from config", from: []corev1.EnvFromSource{fromConfig("evil", "", nil)}, err: "LD_AUDIT changes how"},
		{name: "file", env: []corev1.EnvVar{ref("A", &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}})}, err: "does not support this kind of valueFrom"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := testEnvironment(tt.from, tt.env).variables(t)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error is %v, want %q", err, tt.err)
				}
				return
			}
			must.Do(t, err)
			want := append([]string{"PATH=" + os.Getenv("PATH"), "HOSTNAME=web-0", listenVariable + "=8080=10.0.0.2:8080"}, tt.want...)
			if !slices.ContainsFunc(tt.want, func(s string) bool { return strings.HasPrefix(s, "IMAGE=") }) {
				want = append(want, "IMAGE=v1")
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("environment is\n\t%q\nwant\n\t%q", got, want)
			}
		})
	}
}

// testEnvironment is a container in a Pod that has something in every field.
func testEnvironment(from []corev1.EnvFromSource, env []corev1.EnvVar) *environment {
	container := &corev1.Container{Name: "main", EnvFrom: from, Env: env}
	container.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
	return &environment{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "u1",
				Labels: map[string]string{"app/x": "web"}, Annotations: map[string]string{"note": "hello"}},
			Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "robot"},
		},
		container: container, podIP: netip.MustParseAddr("10.0.0.2"), hostIP: netip.MustParseAddr("10.0.0.1"),
		capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
		source: memoryConfig{
			configMaps: map[string]map[string]string{"conf": {"a": "from-conf"}, "evil": {"LD_AUDIT": "/x"}},
			secrets:    map[string]map[string][]byte{"cred": {"password": []byte("hunter2")}},
		},
	}
}

func (e *environment) variables(t *testing.T) ([]string, error) {
	_, all, err := e.build(t.Context(), Image{Env: []string{"IMAGE=v1"}}, "8080=10.0.0.2:8080")
	return all, err
}
