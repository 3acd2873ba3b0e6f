package appproxy_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// verbs calls one procedure for each verb on an Application.
func verbs(apps runtimev1connect.ApplicationServiceClient, ref *runtimev1.ApplicationRef) map[permission.Verb]func(context.Context) error {
	return map[permission.Verb]func(context.Context) error{
		permission.Get: func(ctx context.Context) error {
			_, err := apps.GetApplication(ctx, connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: ref}))
			return err
		},
		permission.Logs: func(ctx context.Context) error {
			stream, err := apps.Logs(ctx, connect.NewRequest(&runtimev1.LogsRequest{Ref: ref}))
			if err != nil {
				return err
			}
			defer stream.Close()
			for stream.Receive() {
			}
			return stream.Err()
		},
		permission.Sync: func(ctx context.Context) error {
			_, err := apps.Refresh(ctx, connect.NewRequest(&runtimev1.RefreshRequest{Ref: ref}))
			return err
		},
		permission.Rollback: func(ctx context.Context) error {
			_, err := apps.Rollback(ctx, connect.NewRequest(&runtimev1.RollbackRequest{Ref: ref, HistoryId: 7}))
			return err
		},
		permission.Delete: func(ctx context.Context) error {
			_, err := apps.DeleteApplication(ctx, connect.NewRequest(&runtimev1.DeleteApplicationRequest{Ref: ref}))
			return err
		},
	}
}

// allowed reports whether a call was permitted, whatever came of it then.
func allowed(err error) bool {
	return err == nil || connect.CodeOf(err) != connect.CodePermissionDenied
}

// TestRoles: what each role does with an Application, and with those of the
// runtime, which are for admins.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	w.application(t, "shop", "https://git.example/shop.git")
	w.apply(t, `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: source, labels: {slipway.dev/entity: git-source}}
spec:
  project: default
  source: {repoURL: https://git.example/apps.git, path: "."}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
`)
	for _, role := range permission.Roles() {
		for _, name := range []string{"shop", "source"} {
			for verb, call := range verbs(w.appsAs(t, role), &runtimev1.ApplicationRef{Name: name}) {
				want := verb.Rule().Role(role)
				if name == "source" && verb != permission.Get {
					want = role == permission.RoleAdmin
				}
				err := call(t.Context())
				if allowed(err) != want {
					t.Errorf("%s of %s as %s: %v", verb, name, role, err)
				}
				if !want && (err == nil || !strings.Contains(err.Error(), "the right "+string(verb)) || !strings.Contains(err.Error(), "admin of the account")) {
					t.Errorf("%s of %s as %s does not name the right and who gives it: %v", verb, name, role, err)
				}
			}
		}
	}
}
