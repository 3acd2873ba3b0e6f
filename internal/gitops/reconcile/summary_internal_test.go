package reconcile

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/must"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must.Do(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

func TestSummary(t *testing.T) {
	served := `{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {tls: [{hosts: [a.example]}], rules: [
		{host: a.example, http: {paths: [{path: /x}, {path: /}]}}, {host: b.example, http: {paths: [{path: "/y z"}]}}, {host: "*.c.example", http: {paths: [{path: /}]}}]}, STATUS}`
	got := summarize([]*unstructured.Unstructured{
		objectOf(t, strings.Replace(served, "STATUS", "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}", 1)),
		objectOf(t, strings.Replace(strings.ReplaceAll(served, "example", "unserved"), ", STATUS", "", 1)),
		objectOf(t, `{kind: Deployment, spec: {template: {spec: {containers: [{image: "web:2"}, {image: "web:2"}], initContainers: [{image: "init:1"}]}}}}`),
		objectOf(t, `{kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{image: "cron:1"}]}}}}}}`),
		objectOf(t, `{kind: Pod, spec: {containers: [{image: "pod:1"}]}}`),
		objectOf(t, `{kind: Odd, spec: {containers: no, template: [1]}}`),
	})
	if want := []string{"cron:1", "init:1", "pod:1", "web:2"}; !slices.Equal(got.Images, want) {
		t.Errorf("the images are %q, want %q", got.Images, want)
	}
	if want := []string{"http://b.example/y%20z", "https://a.example/", "https://a.example/x"}; !slices.Equal(got.ExternalURLs, want) {
		t.Errorf("the addresses are %q, want %q", got.ExternalURLs, want)
	}
}
