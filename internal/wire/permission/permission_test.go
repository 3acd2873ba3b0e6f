package permission_test

import (
	"slices"
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
		platformv1.File_slipway_platform_v1_identity_proto, platformv1.File_slipway_platform_v1_fleet_proto,
		runtimev1.File_slipway_runtime_v1_application_proto, runtimev1.File_slipway_runtime_v1_runtime_proto,
		runtimev1.File_slipway_runtime_v1_traffic_proto,
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
		if rule, _ := permission.Of(procedure); rule.Permission.String() == "nobody" {
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
		permission        permission.Permission
		none, user, admin bool
	}{
		{permission.None, false, false, false},
		{permission.Public, true, true, true},
		{permission.Self, false, true, true},
		{permission.Session, false, true, true},
		{permission.SignedIn, false, true, true},
		{permission.Operate, false, true, true},
		{permission.Admin, false, false, true},
		{permission.RegisterRuntime, false, false, true},
		{permission.RuntimeOnly, false, false, false},
		{permission.Permission(99), false, false, false},
	} {
		rule := permission.Rule{Permission: tt.permission}
		got := [...]bool{rule.Role(""), rule.Role(permission.RoleUser), rule.Role(permission.RoleAdmin)}
		if want := [...]bool{tt.none, tt.user, tt.admin}; got != want {
			t.Errorf("%s: none, user, admin may %v, want %v", tt.permission, got, want)
		}
		if rule.Role("Admin") != rule.Role("") {
			t.Errorf("%s: a role that does not exist may", tt.permission)
		}
	}
}
