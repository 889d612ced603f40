package admin

import "slices"

// MaxAddresses is how many addresses the login limiter remembers.
const MaxAddresses = maxAddresses

// RoutesForTest lists the routes that need the token, sorted.
func RoutesForTest(a *Admin) []string {
	var out []string
	for _, r := range a.routes() {
		if r.need < localOrToken {
			out = append(out, r.method+" "+r.path)
		}
	}
	slices.Sort(out)
	return out
}

// RememberedForTest is how many addresses the login limiter holds.
func RememberedForTest(a *Admin) int {
	a.logins.mu.Lock()
	defer a.logins.mu.Unlock()
	return len(a.logins.young) + len(a.logins.old)
}
