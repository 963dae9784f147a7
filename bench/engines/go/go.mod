module engine-go

go 1.21
