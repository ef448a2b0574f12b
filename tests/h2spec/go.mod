module h2spec

go 1.19

require (
	github.com/fatih/color v1.13.0
	github.com/spf13/cobra v1.6.1
	github.com/summerwind/h2spec v2.2.1+incompatible
	golang.org/x/net v0.7.0
)
