"""The API of Azure Personalizer, so that programs written for it run here with another endpoint and key."""
