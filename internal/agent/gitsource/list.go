package gitsource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// ListGitSources implements GitSourceService. It lists the Git Sources in Git
// with their state in the cluster. When Git cannot be read it lists those of
// the cluster.
func (s *Service) ListGitSources(ctx context.Context, _ *connect.Request[runtimev1.ListGitSourcesRequest]) (*connect.Response[runtimev1.ListGitSourcesResponse], error) {
	if err := requireUser(ctx); err != nil {
		return nil, err
	}
	may, err := s.options.Rights.GitSourceRights(ctx)
	if err != nil {
		return nil, err
	}
	mayCreate, err := s.options.Rights.MayCreateGitSources(ctx)
	if err != nil {
		return nil, err
	}
	live, err := s.Live(ctx)
	if err != nil {
		return nil, toConnectError(err)
	}
	all := map[string]*runtimev1.GitSource{}
	for _, one := range live {
		all[one.GetName()] = one
	}
	// Git has sources that the cluster does not have yet, and the cluster has
	// the state of the others.
	committed, err := s.committed(ctx)
	if err != nil {
		s.options.Log.Warn("cannot read Git Sources in the Shared Configuration Repository", observe.KeyError, err)
	}
	for _, one := range committed {
		one.Sync, one.Health, one.Message = "Unknown", "Missing", "it is in Git, and not in the cluster yet"
		if there := all[one.GetName()]; there != nil {
			one.Sync, one.Health, one.Message = there.GetSync(), there.GetHealth(), there.GetMessage()
		}
		all[one.GetName()] = one
	}
	response := &runtimev1.ListGitSourcesResponse{MayCreate: mayCreate}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		// Without the right to get it, a Git Source does not exist for the user.
		one, app := all[name], s.application(all[name])
		if may(permission.Get, app) != nil {
			continue
		}
		for _, verb := range []permission.Verb{permission.Update, permission.Delete} {
			if may(verb, app) == nil {
				one.Rights = append(one.Rights, string(verb))
			}
		}
		response.GitSources = append(response.GitSources, one)
	}
	return connect.NewResponse(response), nil
}

// Live returns the Git Sources as the cluster has them, by name.
func (s *Service) Live(ctx context.Context) ([]*runtimev1.GitSource, error) {
	list, err := s.options.SharedRepository.Applications().List(ctx, metav1.ListOptions{
		LabelSelector: sharedrepo.EntityLabel + "=" + sharedrepo.EntityGitSource,
	})
	if err != nil {
		return nil, fmt.Errorf("list the Git Sources: %w", err)
	}
	var all []*runtimev1.GitSource
	for i := range list.Items {
		if one, ok := fromObject(list.Items[i].Object); ok {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(x, y *runtimev1.GitSource) int { return strings.Compare(x.GetName(), y.GetName()) })
	return all, nil
}

// committed returns the Git Sources in the repository. Files that are something
// else are skipped: people may keep more there.
func (s *Service) committed(ctx context.Context) ([]*runtimev1.GitSource, error) {
	repository, err := s.options.SharedRepository.Repository(ctx)
	if err != nil {
		return nil, err
	}
	var all []*runtimev1.GitSource
	folder := sharedrepo.GitSourceFolder(s.options.SharedRepository.Runtime())
	_, err = repository.View(ctx, func(files sharedrepo.Files) error {
		names, err := files.List(folder)
		if err != nil {
			return err
		}
		for _, name := range names {
			// Subfolders and other files belong to users.
			if below := strings.TrimPrefix(name, folder+"/"); strings.Contains(below, "/") || !strings.HasSuffix(below, ".yaml") {
				continue
			}
			text, _, err := files.Read(name)
			if err != nil {
				return err
			}
			if one, ok := parse(text); ok {
				all = append(all, one)
			}
		}
		return nil
	})
	return all, err
}
