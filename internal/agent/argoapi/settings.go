package argoapi

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire/argocd"
)

// maxListed bounds lists of projects and repositories.
const maxListed = 5000

// The resources of policies that have no constants in package rights.
const (
	repositoriesResource = "repositories"
	clustersResource     = "clusters"
)

// mayGet reports whether the user may get something that is no Application. What
// belongs to a project is PROJECT/NAME in policies.
func (s *Service) mayGet(ctx context.Context, resource, project, name string) (bool, error) {
	if project != "" {
		name = project + "/" + name
	}
	decision, err := s.Applications.May(ctx, resource, rights.Get, name)
	return decision.Allowed, err
}

// appProjects is the client of the AppProjects.
func (s *Service) appProjects() dynamic.ResourceInterface {
	return s.Cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(s.ControlNamespace)
}

// projects returns the AppProjects that the user may get.
func (s *Service) projects(ctx context.Context, _ argocd.Request) (any, error) {
	found, err := s.appProjects().List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		return nil, s.unavailable("the AppProjects", err)
	}
	items := []any{}
	if !slices.ContainsFunc(found.Items, func(one unstructured.Unstructured) bool { return one.GetName() == v1alpha1.DefaultProject }) {
		found.Items = append(found.Items, *s.defaultProject())
	}
	for i := range found.Items {
		allowed, err := s.mayGet(ctx, rights.Projects, "", found.Items[i].GetName())
		if err != nil {
			return nil, err
		}
		if allowed {
			items = append(items, tidied(&found.Items[i]))
		}
	}
	return map[string]any{"metadata": map[string]any{}, "items": items}, nil
}

// project returns an AppProject. One that the user may not get does not exist.
func (s *Service) project(ctx context.Context, in argocd.Request) (any, error) {
	name := in.Text("name")
	allowed, err := s.mayGet(ctx, rights.Projects, "", name)
	if err != nil {
		return nil, err
	}
	missing := connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no AppProject %q that you may get", name))
	if !allowed {
		return nil, missing
	}
	found, err := s.appProjects().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && name == v1alpha1.DefaultProject:
		return s.defaultProject().Object, nil
	case apierrors.IsNotFound(err):
		return nil, missing
	case err != nil:
		return nil, s.unavailable("the AppProject", err)
	}
	return tidied(found), nil
}

// defaultProject is the project default where there is no object for it: it allows
// everything, as package project compiles it.
func (s *Service) defaultProject() *unstructured.Unstructured {
	every := map[string]any{"group": "*", "kind": "*"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": "AppProject", "metadata": map[string]any{"name": v1alpha1.DefaultProject, "namespace": s.ControlNamespace},
		"spec": map[string]any{
			"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"server": "*", "namespace": "*"}}, "clusterResourceWhitelist": []any{every},
		},
	}}
}

// tidied returns an object without managed fields and the copy that kubectl keeps.
func tidied(object *unstructured.Unstructured) map[string]any {
	object.SetManagedFields(nil)
	annotations := object.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	object.SetAnnotations(annotations)
	return object.Object
}

// unavailable is the error of a request to the cluster. Its text is for the log.
func (s *Service) unavailable(what string, err error) error {
	s.Log.Error("a request failed", "object", what, observe.KeyError, err)
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("%s cannot be read: see the log of the runtime", what))
}

// projectDetails returns an AppProject with the repositories and clusters that
// belong to it. There are no global projects here.
func (s *Service) projectDetails(ctx context.Context, in argocd.Request) (any, error) {
	found, err := s.project(ctx, in)
	if err != nil {
		return nil, err
	}
	all, err := s.listRepositories(ctx)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(all, func(one map[string]any) bool { return one["project"] != in.Text("name") })
	return map[string]any{"project": found, "repositories": own}, nil
}

// repositories returns the repositories that have Secrets and that the user may
// get, without credentials.
func (s *Service) repositories(ctx context.Context, _ argocd.Request) (any, error) {
	items, err := s.listRepositories(ctx)
	return map[string]any{"metadata": map[string]any{}, "items": items}, err
}

// listRepositories implements repositories. A Secret that is refused has the
// reason as its connection state; others are not tried here, because the
// Applications show whether they work.
func (s *Service) listRepositories(ctx context.Context) ([]map[string]any, error) {
	selector := credential.TypeLabel + "=" + string(credential.Repository)
	found, err := s.Cluster.Client.CoreV1().Secrets(s.ControlNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxListed})
	if err != nil {
		return nil, s.unavailable("the repositories", err)
	}
	items := []map[string]any{}
	for i := range found.Items {
		secret := &found.Items[i]
		given, problem := credential.Parse(secret)
		state := map[string]any{"status": "Unknown", "message": "the conditions of Applications show whether it works"}
		if problem != nil {
			given = credential.Credential{URL: string(secret.Data["url"]), Project: string(secret.Data["project"]), Kind: credential.Kind(secret.Data["type"])}
			state = map[string]any{"status": "Failed", "message": problem.Error()}
		}
		allowed, err := s.mayGet(ctx, repositoriesResource, given.Project, given.URL)
		if err != nil {
			return nil, err
		}
		if allowed {
			items = append(items, map[string]any{
				"repo": address.Redact(given.URL), "type": string(given.Kind), "name": given.Name, "project": given.Project,
				"insecure": given.Insecure, "enableOCI": given.EnableOCI, "connectionState": state,
			})
		}
	}
	return items, nil
}

// repository returns one repository.
func (s *Service) repository(ctx context.Context, in argocd.Request) (any, error) {
	all, err := s.listRepositories(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if sameRepository(fmt.Sprint(one["repo"]), in.Text("repo")) && (in.Text("appProject") == "" || one["project"] == in.Text("appProject")) {
			return one, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such repository that you may get"))
}

// listClusters returns the clusters that Applications deploy to and that the user may
// get.
func (s *Service) listClusters(ctx context.Context, in argocd.Request) (any, error) {
	items := []any{}
	for _, one := range s.Clusters(ctx) {
		allowed, err := s.mayGet(ctx, clustersResource, "", one.GetServer())
		if err != nil {
			return nil, err
		}
		wanted := (in.Text("server") == "" || in.Text("server") == one.GetServer()) && (in.Text("name") == "" || in.Text("name") == one.GetName())
		if !allowed || !wanted {
			continue
		}
		state := map[string]any{"status": connectionStatus(one.GetStatus()), "message": one.GetMessage()}
		items = append(items, map[string]any{
			"server": one.GetServer(), "name": one.GetName(), "serverVersion": one.GetVersion(), "namespaces": one.GetNamespaces(), "labels": one.GetLabels(),
			"connectionState": state, "info": map[string]any{"serverVersion": one.GetVersion(), "connectionState": state},
		})
	}
	return map[string]any{"metadata": map[string]any{}, "items": items}, nil
}

// connectionStatus returns Argo CD's word for the state of a cluster.
func connectionStatus(status string) string {
	if status == clusters.StatusConnected {
		return "Successful"
	}
	return status // Failed and Unknown are the same
}

// cluster returns one cluster, by address or name.
func (s *Service) cluster(ctx context.Context, in argocd.Request) (any, error) {
	if in.Text("server") == "" && in.Text("name") == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the request names no cluster"))
	}
	found, err := s.listClusters(ctx, in)
	if err != nil {
		return nil, err
	}
	items := found.(map[string]any)["items"].([]any)
	if len(items) == 0 {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such cluster that you may get"))
	}
	return items[0], nil
}

// settings returns the settings that clients depend on.
func (s *Service) settings(context.Context, argocd.Request) (any, error) {
	return map[string]any{
		"url": s.ConsoleURL, "appLabelKey": "app.kubernetes.io/instance", "trackingMethod": "annotation", "controllerNamespace": s.ControlNamespace,
		"userLoginsDisabled": true,
	}, nil
}

// userInfo returns the user of the request.
func (s *Service) userInfo(ctx context.Context, _ argocd.Request) (any, error) {
	claims, _ := token.ClaimsFrom(ctx)
	return map[string]any{"loggedIn": true, "username": claims.Email, "iss": claims.Issuer, "groups": claims.Groups}, nil
}

// canI returns yes or no.
func (s *Service) canI(ctx context.Context, in argocd.Request) (any, error) {
	decision, err := s.Applications.May(ctx, in.Text("resource"), in.Text("action"), in.Text("subresource"))
	if err != nil {
		return nil, err
	}
	value := "no"
	if decision.Allowed {
		value = "yes"
	}
	return map[string]any{"value": value}, nil
}

// version returns the version of Argo CD whose API this is, with ours.
func (s *Service) version(context.Context, argocd.Request) (any, error) {
	return map[string]any{
		"Version": argocd.Version + "+slipway", "ExtraBuildInfo": "slipway " + s.Version, "GoVersion": goruntime.Version(), "Compiler": goruntime.Compiler,
		"Platform": goruntime.GOOS + "/" + goruntime.GOARCH,
	}, nil
}
