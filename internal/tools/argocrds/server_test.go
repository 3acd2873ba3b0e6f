package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// install gives the shared cluster the kinds, from the files of the chart.
func install(t *testing.T) *kubetest.Cluster {
	t.Helper()
	cluster := kubetest.Shared(t)
	for _, kind := range v1alpha1.Kinds() {
		cluster.DefineFiles(t, filepath.Join(root, folder, kind.File()))
	}
	return cluster
}

func resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: plural}
}

func plural(kind string) string {
	for _, known := range v1alpha1.Kinds() {
		if known.Name == kind {
			return known.Plural
		}
	}
	return ""
}

// create makes an object as kubectl does, where unknown fields are errors.
func create(t *testing.T, client dynamic.ResourceInterface, object map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return client.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
}

func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	encoded := must.Get(yaml.YAMLToJSON(text))(t)
	object := &unstructured.Unstructured{}
	must.Do(t, object.UnmarshalJSON(encoded))
	return object.Object
}

func decode(object map[string]any) ([]refusal.Refusal, error) {
	var refused []refusal.Refusal
	var err error
	switch object["kind"] {
	case v1alpha1.KindAppProject:
		_, refused, err = v1alpha1.DecodeProject(object)
	case v1alpha1.KindApplicationSet:
		_, refused, err = v1alpha1.DecodeSet(object)
	default:
		_, refused, err = v1alpha1.Decode(object)
	}
	return refused, err
}

// notedFields are the fields of an object that are refused, or ignored with a
// warning, as unknown fields of an ApplicationSet are.
func notedFields(object map[string]any) ([]string, error) {
	refused, err := decode(object)
	var fields []string
	for _, one := range refused {
		fields = append(fields, one.Field)
	}
	if object["kind"] == v1alpha1.KindApplicationSet {
		set, _, _ := v1alpha1.DecodeSet(object) // decode has returned the error
		for _, one := range set.Warnings {
			fields = append(fields, one.Field)
		}
	}
	return fields, err
}

// TestServerTakesExamples: the API server takes the shapes of Argo CD's example
// applications, and keeps every field.
func TestServerTakesExamples(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	files, err := filepath.Glob("../../../api/argo/v1alpha1/testdata/accepted/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text := must.Get(os.ReadFile(file))(t)
			object := parse(t, text)
			client := cluster.Dynamic.Resource(resource(plural(object["kind"].(string)))).Namespace(namespace)
			made := must.Get(create(t, client, object))(t)
			for _, part := range []string{"spec", "operation"} {
				if !reflect.DeepEqual(made.Object[part], object[part]) {
					t.Errorf("%s is\n%v\nand was\n%v", part, made.Object[part], object[part])
				}
			}
			if refused, err := decode(made.Object); err != nil || len(refused) > 0 {
				t.Errorf("%v, %v", refused, err)
			}
		})
	}
}

// TestServerKeepsUnknownFields: what we refuse reaches us, also when it is a
// limit that only a newer Argo CD knows.
func TestServerKeepsUnknownFields(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	for _, test := range []struct{ text, want string }{
		{`{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: a}, spec: {limitOfTomorrow: {x: 1}}}`, "spec.limitOfTomorrow"},
		{`{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: b}, spec: {sourceIntegrity: {git: {policies: []}}}}`, "spec.sourceIntegrity"},
		{`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: a}, spec: {project: a, destination: {}, source: {repoURL: a, path: b, plugin: {nam: c}}}}`, "spec.source.plugin.nam"},
		{`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: b}, spec: {project: a, destination: {}, source: {repoURL: a, path: b, helm: {valuFiles: [a]}}}}`, "spec.source.helm.valuFiles"},
		{`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: c}, spec: {project: a, destination: {}, source: {repoURL: a, path: b}}, operation: {sync: {prun: true}}}`, "operation.sync.prun"},
		{`{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, metadata: {name: a}, spec: {goTemplate: true, generators: [{matrix: {generators: [{clusters: {}}, {matrix: {generators: [{clusters: {}}, {lists: {}}]}}]}}], template: {metadata: {}, spec: {project: a, destination: {}}}}}`,
			"spec.generators[0].matrix.generators[1].matrix.generators[1].lists"},
	} {
		object := parse(t, []byte(test.text))
		made, err := create(t, cluster.Dynamic.Resource(resource(plural(object["kind"].(string)))).Namespace(namespace), object)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if fields, err := notedFields(made.Object); err != nil || !slices.Contains(fields, test.want) {
			t.Errorf("%s: %v, %v", test.text, fields, err)
		}
	}
}

// TestServerRefuses: what Argo CD's definitions require and forbid holds here.
func TestServerRefuses(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	for _, spec := range []string{
		`{project: a, source: {repoURL: a}}`,
		`{destination: {}, source: {repoURL: a}}`,
		`{project: a, destination: {}, source: {path: a}}`,
		`{project: a, destination: {}, source: {repoURL: a, directory: {recurse: "yes"}}}`,
		`{project: a, destination: {}, sources: {repoURL: a}}`,
		`{project: a, destination: {}, revisionHistoryLimit: -1}`,
	} {
		object := parse(t, []byte(`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {generateName: x-}, spec: `+spec+`}`))
		if _, err := create(t, cluster.Dynamic.Resource(resource("applications")).Namespace(namespace), object); err == nil {
			t.Errorf("%s is taken", spec)
		}
	}
}

// TestServerStatus: the status of Applications and ApplicationSets is a
// subresource, and is ignored in a write of the rest.
func TestServerStatus(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	applications := cluster.Dynamic.Resource(resource("applications")).Namespace(namespace)
	made, err := create(t, applications, parse(t, []byte(`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: a}, spec: {project: a, destination: {}, source: {repoURL: a, path: b}}}`)))
	must.Do(t, err)
	status := v1alpha1.ApplicationStatus{
		Sync:   v1alpha1.SyncStatus{Status: v1alpha1.SyncSynced, Revision: "abc"},
		Health: v1alpha1.HealthStatus{Status: v1alpha1.Healthy},
	}
	if made.Object["status"], err = status.Unstructured(); err != nil {
		t.Fatal(err)
	}
	ignored := must.Get(applications.Update(ctx, made.DeepCopy(), metav1.UpdateOptions{}))(t)
	if ignored.Object["status"] != nil {
		t.Errorf("the status was written with the rest: %v", ignored.Object["status"])
	}
	made, err = applications.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	must.Do(t, err)
	if got, _, _ := unstructured.NestedString(made.Object, "status", "sync", "status"); got != "Synced" {
		t.Errorf("the status is %v", made.Object["status"])
	}
	sets := cluster.Dynamic.Resource(resource("applicationsets")).Namespace(namespace)
	set := must.Get(create(t, sets, parse(t, []byte(`{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, metadata: {name: a}, spec: {generators: [], template: {metadata: {}, spec: {project: a, destination: {}}}}}`))))(t)
	set.Object["status"] = map[string]any{"resourcesCount": int64(2)}
	if set, err = sets.UpdateStatus(ctx, set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedInt64(set.Object, "status", "resourcesCount"); got != 2 {
		t.Errorf("the status is %v", set.Object["status"])
	}
}

// TestServerNames: kubectl finds the kinds by Argo CD's short names, and shows
// Argo CD's columns.
func TestServerNames(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	list := must.Get(cluster.Client.Discovery().ServerResourcesForGroupVersion(v1alpha1.APIVersion))(t)
	found := map[string]string{}
	for _, served := range list.APIResources {
		found[served.Name] = strings.Join(served.ShortNames, " ")
	}
	want := map[string]string{"applications": "app apps", "appprojects": "appproj appprojs", "applicationsets": "appset appsets",
		"applications/status": "", "applicationsets/status": ""}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("served: %v", found)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer := must.Get(cluster.Client.Discovery().RESTClient().Get().
		AbsPath("/apis/argoproj.io/v1alpha1/namespaces/"+namespace+"/applications").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx))(t)
	var table metav1.Table
	must.Do(t, json.Unmarshal(answer, &table))
	var columns []string
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, fmt.Sprintf("%s/%d", column.Name, column.Priority))
	}
	if got := strings.Join(columns, ", "); got != "Name/0, Sync Status/0, Health Status/0, Revision/10, Project/10" {
		t.Errorf("the columns are %s", got)
	}
}
