// Package cli is the command line: every command of the product and the demo.
//
// What always holds:
//
//   - Data goes to stdout; everything else (progress, questions, faults) goes
//     to stderr, so that a pipe sees only data.
//   - Every way a command can end has one exit code, listed by `help
//     exit-codes`. Commands return errors; only [Main] turns them into codes and
//     words, once.
//   - Text that came from outside (event IDs, types, headers, answers of targets)
//     is escaped before it reaches a terminal, so that it can neither move the
//     cursor nor pose as our own output.
//   - No secret and no token is printed: a token is named by its file. The
//     exceptions are tokens when they are made and kept nowhere: by `admin
//     token new`, and at the first start on a shared ledger.
//   - A command that sends more than one named event again, or sends beyond this
//     machine, asks first, and refuses when there is nobody to ask and --yes is
//     missing.
//   - Every flag can be given by an environment variable as well; the flag wins.
package cli
