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
)

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
func folderOf(app int) string { return "apps/" + nameOf(app) }

// files returns the files of an Application at a revision, by path. A revision
// changes the Deployment only.
func (f form) files(app int, revision string) map[string]string {
	name, folder := nameOf(app), folderOf(app)
	write := func(name, revision string) string {
		return strings.NewReplacer("NAME", name, "REVISION", revision).Replace(objects)
	}
	switch f {
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
