package privatenet

import (
	"io/fs"
	"strings"
)

// explainRefusal explains why the kernel does not permit a private network and
// which sysctl to change, from the settings below /proc/sys. Settings that do
// not exist on this kernel are skipped; without a match, a seccomp profile or a
// missing capability is the likely cause.
func explainRefusal(settings fs.FS) string {
	known := []struct{ file, forbids, fix string }{
		{"user/max_net_namespaces", "0", "network namespaces are switched off: sysctl -w user.max_net_namespaces=10000"},
		{"user/max_user_namespaces", "0", "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000"},
		{"kernel/unprivileged_userns_clone", "0", "user namespaces need root: sysctl -w kernel.unprivileged_userns_clone=1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
	}
	var found []string
	for _, setting := range known {
		value, err := fs.ReadFile(settings, setting.file)
		if err == nil && strings.TrimSpace(string(value)) == setting.forbids {
			found = append(found, "  "+setting.fix)
		}
	}
	if len(found) == 0 {
		return "The tests need a network namespace, and no sysctl forbids it. In a container, " +
			"give it CAP_SYS_ADMIN or a seccomp profile that permits clone with CLONE_NEWUSER."
	}
	return "The tests need a network namespace, or root. What forbids it here:\n" + strings.Join(found, "\n")
}
