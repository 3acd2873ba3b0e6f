package permission_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// R128: every procedure of the .proto files has a row, and every row is of one.
func TestEachProcedureHasARow(t *testing.T) {
	var declared []string
	for _, file := range []protoreflect.FileDescriptor{
		platformv1.File_slipway_platform_v1_identity_proto, platformv1.File_slipway_platform_v1_fleet_proto, platformv1.File_slipway_platform_v1_history_proto,
		runtimev1.File_slipway_runtime_v1_application_proto, runtimev1.File_slipway_runtime_v1_runtime_proto,
		runtimev1.File_slipway_runtime_v1_traffic_proto, runtimev1.File_slipway_runtime_v1_release_proto,
		runtimev1.File_slipway_runtime_v1_promotion_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				declared = append(declared, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
			}
		}
	}
	if len(declared) < 60 {
		t.Fatalf("only %d procedures were found in the .proto files", len(declared))
	}
	rows := permission.Procedures()
	for _, procedure := range declared {
		if !slices.Contains(rows, procedure) {
			t.Errorf("%s has no row: nobody may call it", procedure)
		}
	}
	for _, procedure := range rows {
		if !slices.Contains(declared, procedure) {
			t.Errorf("%s has a row and is in no .proto file", procedure)
		}
		if rule, _ := permission.Of(procedure); rule.Permission == permission.None {
			t.Errorf("%s is for nobody", procedure)
		}
	}
}

// A procedure without a row is denied.
func TestNoRow(t *testing.T) {
	for _, procedure := range []string{"", "/", "/slipway.platform.v1.AuthService/", "/slipway.platform.v1.AuthService/me", "/slipway.platform.v1.Other/Me"} {
		rule, ok := permission.Of(procedure)
		if ok || rule.Role(permission.RoleAdmin) {
			t.Errorf("%q is allowed", procedure)
		}
	}
}

// What each role may.
func TestRole(t *testing.T) {
	for _, tt := range []struct {
		permission                                permission.Permission
		none, restricted, viewer, operator, admin bool
	}{
		{permission.None, false, false, false, false, false},
		{permission.Public, true, true, true, true, true},
		{permission.Self, false, true, true, true, true},
		{permission.Session, false, true, true, true, true},
		{permission.SignedIn, false, true, true, true, true},
		{permission.View, false, false, true, true, true},
		{permission.Operate, false, false, false, true, true},
		{permission.Admin, false, false, false, false, true},
		{permission.RegisterRuntime, false, false, false, false, true},
		{permission.RuntimeOnly, false, false, false, false, false},
		{permission.ReplicaOnly, false, false, false, false, false},
		{permission.Permission(99), false, false, false, false, false},
	} {
		rule := permission.Rule{Permission: tt.permission}
		got := [...]bool{rule.Role(""), rule.Role(permission.RoleRestricted), rule.Role(permission.RoleViewer), rule.Role(permission.RoleOperator), rule.Role(permission.RoleAdmin)}
		if want := [...]bool{tt.none, tt.restricted, tt.viewer, tt.operator, tt.admin}; got != want {
			t.Errorf("%s: none, restricted, viewer, operator, admin may %v, want %v", tt.permission, got, want)
		}
		if rule.Role("Admin") != rule.Role("") {
			t.Errorf("%s: a role that does not exist may", tt.permission)
		}
	}
}

// The former name of the operator is understood, and nothing else that is no
// role.
func TestParseRole(t *testing.T) {
	for word, want := range map[string]string{
		"restricted": "restricted", "viewer": "viewer", "operator": "operator", "admin": "admin", "user": "operator", "": "", "Admin": "", "root": "",
	} {
		got, err := permission.ParseRole(word)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", word, got, err)
		}
	}
}

// What each role does with Applications, and how a refusal names the right and
// the role that is enough.
func TestVerbs(t *testing.T) {
	for verb, enough := range map[permission.Verb]string{
		permission.Get: "viewer", permission.Sync: "operator", permission.Override: "operator", permission.Rollback: "operator",
		permission.Action: "operator", permission.Logs: "operator", permission.Delete: "admin", "": "", "everything": "",
	} {
		may := false
		for _, role := range permission.Roles() {
			may = may || role == enough
			if verb.Rule().Role(role) != may {
				t.Errorf("%s has %q: %v", role, verb, !may)
			}
		}
		if reads := verb == permission.Get || verb == permission.Logs; verb.Rule().Read != reads {
			t.Errorf("a key to read has %q: %v", verb, !reads)
		}
		missing := verb.Rule().Missing("nobody")
		if enough != "" && (!strings.Contains(missing, "the right "+string(verb)) || !strings.Contains(missing, "the role "+enough+",")) {
			t.Errorf("%s: %s", verb, missing)
		}
	}
}

// A pattern without a row is an error, and so is a part of one.
func TestCheck(t *testing.T) {
	for pattern, known := range map[string]bool{
		"/slipway.platform.v1.AuthService/": true, "/slipway.runtime.v1.ApplicationService/": true, "/workflows/": true, "/": true, "/console": true,
		"/slipway.platform.v1.OtherService/": false, "/workflows": false, "/debug/": false, "": false, "/slipway.platform.v1.AuthService/Mee": false,
	} {
		if err := permission.Check("/readyz", pattern); (err == nil) != known {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// A path that is no procedure: reading and changing differ below /workflows/,
// and an upgraded connection may change.
func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		path, method string
		upgrade      bool
		want         permission.Permission
	}{
		{"/workflows/", "GET", false, permission.View},
		{"/workflows/", "HEAD", false, permission.View},
		{"/workflows/", "GET", true, permission.Operate},
		{"/workflows/", "POST", false, permission.Operate},
		{"/workflows/", "OPTIONS", false, permission.Operate},
		{"/workflows", "GET", false, permission.None},
		{"/tunnel/v1/connect", "GET", true, permission.RuntimeOnly},
		{"/webhooks/", "POST", false, permission.Public},
	} {
		if got := permission.OfPath(tt.path, tt.method, tt.upgrade).Permission; got != tt.want {
			t.Errorf("%s %s, upgrade %v: %s, want %s", tt.method, tt.path, tt.upgrade, got, tt.want)
		}
	}
}
