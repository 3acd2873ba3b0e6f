package acme

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

const (
	previewPath  = "acme/shop"
	previewHost  = "pr-7.preview.example"
	previewSpace = "previews"
)

// previewSet is the walk-through of docs/previews.md, at a GitLab server.
const previewSet = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop-previews}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators:
    - pullRequest:
        gitlab: {project: %[1]s, api: '%[2]s', pullRequestState: opened, tokenRef: {secretName: token, key: key}, caRef: {configMapName: ca, key: ca.crt}}
        requeueAfterSeconds: 1
  template:
    metadata:
      name: shop-pr-{{.number}}
      annotations:
        slipway.dev/preview-url: https://pr-{{.number}}.preview.example
        slipway.dev/preview-pull-request: "{{.number}}"
    spec:
      project: default
      source:
        repoURL: '%[3]s'
        targetRevision: "{{.head_sha}}"
        path: deploy/preview
        kustomize:
          nameSuffix: -{{.number}}
          patches:
            - target: {kind: Ingress, name: shop}
              patch: |-
                - op: replace
                  path: /spec/rules/0/host
                  value: pr-{{.number}}.preview.example
      destination: {server: "https://kubernetes.default.svc", namespace: %[4]s}
      syncPolicy: {automated: {prune: true, selfHeal: true}}
`

// previewIngress is the Ingress of the repository, with a placeholder.
const previewIngress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  annotations: {traefik.ingress.kubernetes.io/router.tls.certresolver: le}
spec:
  rules:
    - host: placeholder.preview.example
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}
`

// testPreview: a merge request becomes an Application by the built agent, its host is
// served by the edges with a certificate of the authority, and the comment has the
// address. All of it goes with the merge request.
func (w *world) testPreview(t *testing.T) {
	argotest.Install(t, w.cluster)
	control := w.cluster.Namespace(t)
	// The Service is there for all previews; endpoints are not a matter of Git.
	w.serve(t, previewSpace, "shop", nil, "shop.example")
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{
		"deploy/preview/kustomization.yaml": "resources: [ingress.yaml]\n", "deploy/preview/ingress.yaml": previewIngress,
	})
	host := w.startProvider(t, control, repository.Head(t))
	w.cluster.Apply(t, control, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: "+previewSpace+"}]}\n")
	w.cluster.Apply(t, control, fmt.Sprintf(previewSet, previewPath, host.URL, repository.URL(), previewSpace))
	agentprocess.Start(t, agentprocess.Options{Binary: w.binary, Kubeconfig: w.cluster.Kubeconfig, Namespace: control})

	w.awaitFetched(t, previewHost)
	for _, r := range w.replicas {
		if status, body, err := r.get(t.Context(), previewHost); status != 200 || body != "hello" {
			t.Errorf("%s: %d %q %v", r.At, status, body, err)
		}
	}
	awaitComment(t, host, "https://"+previewHost+">. It serves the commit "+repository.Head(t)[:12])

	host.ChangePulls(previewPath, func(pulls []providertest.Pull) []providertest.Pull {
		pulls[0].State = gitprovider.PullRequestMerged
		return pulls
	})
	awaitComment(t, host, "The preview of this pull request was removed.")
	eventually(t, func() error { return w.previewGone(t.Context(), control) })
	// What served before serves on.
	if status, _, err := w.replicas[0].get(t.Context(), "shop.example"); status != 200 {
		t.Errorf("the host beside it: %d %v", status, err)
	}
}

// startProvider serves a merge request, and gives the set its token and authority.
func (w *world) startProvider(t *testing.T, control, commit string) *providertest.Server {
	t.Helper()
	host := providertest.Start(t, gitprovider.GitLab, providertest.World{
		Tokens:       []providertest.Token{{Value: "glpat-1", Login: "robot", Scopes: []string{"api"}, Roles: map[string]string{"acme": "write"}}},
		Repositories: []providertest.Repository{{Path: previewPath, Private: true}},
	})
	host.ChangePulls(previewPath, func([]providertest.Pull) []providertest.Pull {
		return []providertest.Pull{{Number: 7, Head: "feature/7", Base: "main", HeadSHA: commit, State: gitprovider.PullRequestOpen, Author: "ann"}}
	})
	authority := must.Get(json.Marshal(string(host.CA)))(t)
	w.cluster.Apply(t, control, "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {key: glpat-1, project: default}\n---\n"+
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca}\ndata: {ca.crt: "+string(authority)+"}\n")
	return host
}

// awaitComment waits until the merge request has one comment, with a text in it.
func awaitComment(t *testing.T, host *providertest.Server, part string) {
	t.Helper()
	eventually(t, func() error {
		comments := host.Pulls(previewPath)[0].Comments
		if len(comments) != 1 || !strings.Contains(comments[0].Text, part) {
			return fmt.Errorf("the comments are %+v, want one with %q", comments, part)
		}
		return nil
	})
}

// previewGone fails while something of the preview is left: its Application, its Ingress,
// or its host at an edge, which then has no route and the default certificate.
func (w *world) previewGone(ctx context.Context, control string) error {
	if _, err := agentprocess.Applications(w.cluster.Cluster, control).Get(ctx, "shop-pr-7", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Application is there: %w", err)
	}
	if _, err := w.cluster.Client.NetworkingV1().Ingresses(previewSpace).Get(ctx, "shop-7", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Ingress is there: %w", err)
	}
	for _, r := range w.replicas {
		if status, _, err := r.get(ctx, previewHost); err != nil || status != 404 {
			return fmt.Errorf("%s serves the host: %d %w", r.At, status, err)
		}
		if _, err := r.fetched(ctx, previewHost); err == nil {
			return errors.New("the certificate is shown for the host")
		}
	}
	return nil
}
