module inferrun/campaigns/peers/server

go 1.25
