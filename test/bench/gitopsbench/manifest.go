package main

import (
	"fmt"
	"strings"
)

// form is the kind of source in Git, which selects the renderer that is
// measured.
type form string

const (
	// The values are those of the -form flag.
	directory     form = "directory"
	kustomization form = "kustomize"
	chart         form = "helm"
	// umbrella is a chart that depends on charts of a Helm repository.
	umbrella form = "umbrella"
)

// forms are all of them.
func forms() []form { return []form{directory, kustomization, chart, umbrella} }

// umbrellas is the number of umbrella charts, which Applications share.
const umbrellas = 50

// objects is the manifest of every Application; files replaces NAME and
// REVISION. It has the same kinds of objects as the benchmark that Flux
// publishes figures of. The Deployment has no replicas, because the cluster has
// no node.
const objects = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: NAME
---
apiVersion: v1
kind: Service
metadata:
  name: NAME
  labels: {app.kubernetes.io/name: NAME}
spec:
  selector: {app.kubernetes.io/name: NAME}
  ports:
  - {name: http, port: 80, targetPort: http}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
  labels: {app.kubernetes.io/name: NAME}
spec:
  replicas: 0
  selector:
    matchLabels: {app.kubernetes.io/name: NAME}
  template:
    metadata:
      labels: {app.kubernetes.io/name: NAME}
      annotations: {example.com/revision: "REVISION"}
    spec:
      serviceAccountName: NAME
      containers:
      - name: web
        image: example.com/web:REVISION
        ports:
        - {name: http, containerPort: 8080}
        readinessProbe:
          httpGet: {path: /readyz, port: http}
        resources:
          requests: {cpu: 100m, memory: 64Mi}
          limits: {memory: 128Mi}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: NAME
spec:
  rules:
  - host: NAME.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend: {service: {name: NAME, port: {name: http}}}
`

// nameOf returns the name of an Application and of all its objects.
func nameOf(app int) string { return fmt.Sprintf("app-%05d", app) }

// folderOf returns the path of an Application in the repository.
func (f form) folderOf(app int) string {
	if f == umbrella {
		return fmt.Sprintf("umbrellas/chart-%02d", app%umbrellas)
	}
	return "apps/" + nameOf(app)
}

// sourceOf returns the source of an Application. Those that share a chart have a
// value file each.
func (f form) sourceOf(app int, repository string) map[string]any {
	source := map[string]any{"repoURL": repository, "path": f.folderOf(app), "targetRevision": "main"}
	if f == umbrella {
		source["helm"] = map[string]any{"valueFiles": []any{"../../values/" + nameOf(app) + ".yaml"}}
	}
	return source
}

// write returns the objects with a name and a revision.
func write(name, revision string) string {
	return strings.NewReplacer("NAME", name, "REVISION", revision).Replace(objects)
}

// files returns the files of an Application at a revision, by path. A revision
// changes the Deployment only. Charts is the address of the Helm repository.
func (f form) files(app int, revision, charts string) map[string]string {
	name, folder := nameOf(app), f.folderOf(app)
	switch f {
	case umbrella:
		return map[string]string{
			folder + "/Chart.yaml": "apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n" +
				"- {name: web, version: 1.x, repository: \"" + charts + "\"}\n- {name: common, version: ^1.0.0, repository: \"" + charts + "\"}\n",
			folder + "/values.yaml":    "web: {revision: none}\n",
			"values/" + name + ".yaml": "web: {revision: " + revision + "}\n",
		}
	case kustomization:
		return map[string]string{
			folder + "/kustomization.yaml": "resources: [objects.yaml]\n",
			folder + "/objects.yaml":       write(name, revision),
		}
	case chart:
		return map[string]string{
			folder + "/Chart.yaml":             "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			folder + "/values.yaml":            "revision: " + revision + "\n",
			folder + "/templates/objects.yaml": write("{{ .Release.Name }}", "{{ .Values.revision }}"),
		}
	}
	// A plain directory needs no file but the manifest.
	return map[string]string{folder + "/objects.yaml": write(name, revision)}
}
